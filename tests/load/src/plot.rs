//! Line plots as SVG, small enough to be our own.
//!
//! Colours come from classes of the page around it, so that one drawing reads well on light and on dark.

use std::fmt::Write;

/// A plot of several lines over one axis.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// What an axis shows.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    /// Lower end; the upper end is that of the data unless `max` is given.
    pub(crate) min: f64,
    pub(crate) max: Option<f64>,
    /// Powers of ten instead of equal steps; `min` is above zero then.
    pub(crate) is_log: bool,
}

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Colour and dashes, 0 to 5.
    pub(crate) style: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;

/// An axis with its ends known.
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

// === impl Plot ===

impl Plot {
    /// The drawing with its title and the names of its lines, as HTML.
    pub(crate) fn html(&self) -> String {
        let mut html = format!(
            "<figure><figcaption>{}</figcaption>\n{}<p class=legend>",
            escape(&self.title),
            self.svg()
        );
        for line in &self.lines {
            // Writing to a string cannot fail.
            let _ = write!(html, "<span class=c{}>{}</span> ", line.style, escape(&line.name));
        }
        html + "</p></figure>\n"
    }

    fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Scale::of(&self.x, points().map(|point| point.0));
        let y = Scale::of(&self.y, points().map(|point| point.1));
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img aria-label=\"{}\">\n",
            escape(&self.title)
        );
        self.axes(&mut svg, &x, &y);
        for line in &self.lines {
            draw(&mut svg, line, &x, &y);
        }
        svg + "</svg>\n"
    }

    fn axes(&self, svg: &mut String, x: &Scale, y: &Scale) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in y.ticks() {
            let at = bottom - y.place(tick) * (bottom - TOP);
            let _ = writeln!(svg, "<path class=grid d=\"M{LEFT} {at:.1}H{right}\"/>");
            let (left, text) = (LEFT - 8.0, number(tick));
            let _ = writeln!(svg, "<text x={left} y={at:.1} dy=.35em text-anchor=end>{text}</text>");
        }
        for tick in x.ticks() {
            let at = LEFT + x.place(tick) * (right - LEFT);
            let _ = writeln!(svg, "<path class=grid d=\"M{at:.1} {TOP}V{bottom}\"/>");
            let (below, text) = (bottom + 18.0, number(tick));
            let _ = writeln!(svg, "<text x={at:.1} y={below} text-anchor=middle>{text}</text>");
        }
        let (middle_x, middle_y) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
        let (low, label) = (HEIGHT - 8.0, escape(&self.x.label));
        let _ = writeln!(svg, "<text x={middle_x} y={low} text-anchor=middle>{label}</text>");
        let label = escape(&self.y.label);
        let _ = writeln!(
            svg,
            "<text transform=\"translate(14 {middle_y}) rotate(-90)\" text-anchor=middle>{label}</text>"
        );
    }
}

fn draw(svg: &mut String, line: &Line, x: &Scale, y: &Scale) {
    let style = line.style;
    let place = |point: &(f64, f64)| {
        let across = LEFT + x.place(point.0) * (WIDTH - RIGHT - LEFT);
        (across, HEIGHT - BOTTOM - y.place(point.1) * (HEIGHT - BOTTOM - TOP))
    };
    let path: Vec<String> = line.points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline class=\"line c{style}\" points=\"{}\"/>", path.join(" "));
    // Marks on a line that is dense in points would hide it.
    if line.points.len() > 24 {
        return;
    }
    for point in &line.points {
        let (cx, cy) = place(point);
        let (name, x, y) = (escape(&line.name), number(point.0), number(point.1));
        let _ = writeln!(
            svg,
            "<circle class=c{style} cx={cx:.1} cy={cy:.1} r=3.5><title>{name}: {y} at {x}</title></circle>"
        );
    }
}

// === impl Axis ===

impl Axis {
    /// From 0 to what the data needs.
    pub(crate) fn from_zero(label: &str) -> Axis {
        Axis { label: label.into(), min: 0.0, max: None, is_log: false }
    }

    /// From 0 to `max`.
    pub(crate) fn up_to(label: &str, max: f64) -> Axis {
        Axis { max: Some(max), ..Axis::from_zero(label) }
    }

    /// Powers of ten from 1.
    pub(crate) fn log(label: &str) -> Axis {
        Axis { min: 1.0, is_log: true, ..Axis::from_zero(label) }
    }
}

// === impl Scale ===

impl Scale {
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
        let highest = values.filter(|value| value.is_finite()).fold(axis.min, f64::max);
        let high = axis.max.unwrap_or(highest);
        let high = if high > axis.min { high } else { axis.min + 1.0 };
        Scale { low: axis.min, high, is_log: axis.is_log }
    }

    /// 0 at the lower end, 1 at the upper; what lies beyond is drawn at the edge.
    fn place(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let decades = (self.high / self.low).log10().floor() as i32;
            return (0..=decades).map(|power| self.low * 10_f64.powi(power)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|n| n * decade).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let n = ((self.high - self.low) / step + 1e-9).floor() as u32;
        (0..=n).map(|i| self.low + f64::from(i) * step).collect()
    }
}

/// A number without needless digits.
pub(crate) fn number(value: f64) -> String {
    let text = match value.abs() {
        n if n >= 100.0 => format!("{value:.0}"),
        n if n >= 10.0 => format!("{value:.1}"),
        n if n >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Text as HTML and SVG want it, in elements and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(escape("<b a=\"1\"> & c"), "&lt;b a=&quot;1&quot;&gt; &amp; c");
    }

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let scale = |high| Scale { low: 0.0, high, is_log: false };
        assert_eq!(scale(5.0).ticks(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(scale(1.2).ticks().len(), 5);
        let log = Scale { low: 1.0, high: 1_000_000.0, is_log: true };
        assert_eq!(log.ticks().len(), 7);
        assert_eq!(log.place(1_000.0), 0.5);
    }

    #[test]
    fn a_plot_holds_its_lines_and_stays_in_its_frame() {
        let line = Line { name: "a<b".into(), style: 0, points: vec![(0.0, 0.0), (5.0, 99.0)] };
        let plot =
            Plot { title: "t".into(), x: Axis::from_zero("x"), y: Axis::up_to("y", 1.0), lines: vec![line] };
        let html = plot.html();
        assert!(html.contains("a&lt;b") && !html.contains("a<b"));
        assert!(html.contains(&format!(
            "points=\"{LEFT:.1},{:.1} {:.1},{TOP:.1}\"",
            HEIGHT - BOTTOM,
            WIDTH - RIGHT
        )));
    }

    #[test]
    fn numbers_have_no_needless_digits() {
        assert_eq!([0.0, 0.5, 1.25, 12.0, 1234.5].map(number), ["0", "0.5", "1.25", "12", "1234"]);
    }
}
