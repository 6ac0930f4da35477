//! An HTML page that needs nothing else: no script, no fonts, no network.

use crate::machine::Machine;
use crate::plot::{Plot, escape};

/// A report for people.
#[derive(Debug)]
pub(crate) struct Page {
    title: String,
    body: String,
}

const STYLE: &str = "
:root{color-scheme:light dark;--fg:#1c2330;--dim:#5d6778;--bg:#fff;--rule:#dde2ea;--bad:#b3261e;
--c0:#0b62d6;--c1:#0f8a5f;--c2:#8a5a00;--c3:#b3267d;--c4:#6a4bd8;--c5:#5d6778}
@media(prefers-color-scheme:dark){:root{--fg:#e4e8ef;--dim:#9aa5b6;--bg:#12161d;--rule:#2b3340;--bad:#ff8a80;
--c0:#6cb2ff;--c1:#4fd3a0;--c2:#f0b04a;--c3:#ff85c8;--c4:#b49dff;--c5:#9aa5b6}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:1360px;margin:2rem auto;
padding:0 1.25rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2.25rem 0 .5rem}p{max-width:78ch}
.dim{color:var(--dim)}.bad{color:var(--bad);font-weight:600}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,520px),1fr));gap:1.5rem}
figure{margin:0}figcaption{font-weight:600}svg{width:100%;height:auto;display:block}
svg text{fill:var(--dim);font-size:12px}.grid{stroke:var(--rule);fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.legend{margin:.25rem 0;font-size:.875rem}
.legend span{margin-right:.9rem;white-space:nowrap}.legend span::before{content:'';display:inline-block;width:1.4em;
border-top:3px solid currentColor;margin-right:.4em;vertical-align:middle}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}
.c5{color:var(--c5)}.line{stroke:currentColor}circle{fill:currentColor}
.c2.line{stroke-dasharray:7 4}.c3.line{stroke-dasharray:2 4}.c4.line{stroke-dasharray:10 3 2 3}
.c5.line{stroke-dasharray:4 4}
.table{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .8rem .3rem 0;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{color:var(--dim);font-weight:600;vertical-align:bottom}
th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}
";

// === impl Page ===

impl Page {
    /// A page that says when and on what machine it was made.
    pub(crate) fn new(title: &str, made_at: &str, machine: &Machine) -> Page {
        let Machine { cores, processor, kernel } = machine;
        let on = escape(&format!("{made_at}, {cores} cores, {processor}, Linux {kernel}"));
        let body = format!("<h1>{}</h1>\n<p class=dim>{on}</p>\n", escape(title));
        Page { title: title.to_owned(), body }
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.body += &format!("<h2>{}</h2>\n", escape(text));
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        self.body += &format!("<p>{}</p>\n", escape(text));
    }

    pub(crate) fn warning(&mut self, text: &str) {
        self.body += &format!("<p class=bad>{}</p>\n", escape(text));
    }

    pub(crate) fn plots(&mut self, plots: &[Plot]) {
        self.body += "<div class=plots>\n";
        plots.iter().for_each(|plot| self.body += &plot.html());
        self.body += "</div>\n";
    }

    /// A table whose first two columns are text.
    pub(crate) fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        let row = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            let cells: String = cells.map(|cell| format!("<{tag}>{}", escape(cell))).collect();
            format!("<tr>{cells}\n")
        };
        self.body += "<div class=table><table>\n";
        self.body += &row("th", &mut head.iter().copied());
        for cells in rows {
            self.body += &row("td", &mut cells.iter().map(String::as_str));
        }
        self.body += "</table></div>\n";
    }

    /// The whole document.
    pub(crate) fn html(&self) -> String {
        let title = escape(&self.title);
        format!(
            "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
             <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n<body>\n{}</body>\n</html>\n",
            self.body
        )
    }
}
