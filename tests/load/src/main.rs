//! The sample upstream, the load generator and the reports.

fn main() {}
