//! Which results have no timeline, and why: a result that keeps no times is not to be taken for one
//! without outliers.

use std::collections::BTreeSet;

use super::super::document::{Document, Measurement, plain};
use super::{Overlay, base_of, titled};

/// The condition in which a board's result says why nobody saw it from outside.
const UNSEEN: &str = "absent.outside";
/// Behind the name of a measure that was seen from outside.
const OUTSIDE: &str = ".outside";
/// Of this machine, which has kept times for some while.
const HOST: &str = "host/";

/// Measures of one case that lack times for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Untimed {
    pub(crate) case: String,
    /// `all measures`, or which.
    pub(crate) measures: String,
    pub(crate) why: String,
}

/// A measure of a case, however it was timed.
type Measure<'a> = (&'a str, &'a str);

impl Overlay<'_> {
    /// By case, in the order of the documents.
    pub(crate) fn untimed(&self) -> Vec<Untimed> {
        let measured = || self.documents.iter().flat_map(|document| drawn(document));
        let has_times = |(_, result): &(_, &Measurement)| !result.outliers.is_empty();
        let timed: BTreeSet<Measure<'_>> = measured().filter(has_times).map(of).collect();
        let mut found: Vec<(&str, String, Vec<&str>)> = Vec::new();
        for entry in measured().filter(|entry| !timed.contains(&of(*entry))) {
            let (case, base) = of(entry);
            let why = why(entry);
            let known = found
                .iter()
                .position(|known| (known.0, &known.1) == (case, &why));
            let known = known.unwrap_or_else(|| {
                found.push((case, why, Vec::new()));
                found.len() - 1
            });
            let bases = &mut found[known].2;
            if !bases.contains(&base) {
                bases.push(base);
            }
        }
        let untimed = found.into_iter().map(|(case, why, bases)| {
            let all: BTreeSet<&str> = measured()
                .map(of)
                .filter(|(of_case, _)| *of_case == case)
                .map(|(_, base)| base)
                .collect();
            let named = bases.iter().map(|base| titled(base));
            let measures = match bases.len() == all.len() {
                true => "all measures".to_owned(),
                false => named.collect::<Vec<_>>().join(", "),
            };
            Untimed {
                case: case.to_owned(),
                measures,
                why,
            }
        });
        untimed.collect()
    }
}

/// Its results that are drawn.
fn drawn(document: &Document) -> impl Iterator<Item = (&Document, &Measurement)> {
    let results = document.results.iter();
    let drawn = results.filter(|result| result.has_histogram());
    drawn.map(move |result| (document, result))
}

fn of<'a>((_, result): (&'a Document, &'a Measurement)) -> Measure<'a> {
    (&result.case, base_of(&result.metric))
}

fn why((document, result): (&Document, &Measurement)) -> String {
    let base = base_of(&result.metric);
    let seen = document.results.iter();
    let mut seen =
        seen.filter(|other| other.case == result.case && other.metric.ends_with(OUTSIDE));
    let is_seen = seen.clone().next().is_some();
    let is_itself_seen = seen.any(|other| base_of(&other.metric) == base);
    match document.conditions.get(UNSEEN) {
        Some(why) if !is_seen => plain(why),
        _ if is_itself_seen || result.case.starts_with(HOST) => {
            "measured before times of single samples were kept".to_owned()
        }
        _ => "not seen from outside, and kept as a histogram only".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::document::tests::parsed;
    use super::super::overlay;
    use super::super::tests::latency;
    use super::*;

    /// A board's run: the core's own figure of a measure, and what was seen from outside, with or
    /// without times.
    fn board(case: &str, metrics: &[(&str, bool)]) -> Value {
        let mut document = latency("idle", "timer", false);
        document["machine"]["emulated"] = json!(true);
        let results = metrics.iter().map(|(metric, times)| {
            let mut result = latency("idle", metric, *times)["results"][0].take();
            result["case"] = json!(case);
            result
        });
        document["results"] = results.collect();
        document
    }

    fn said(documents: &[Value]) -> Vec<String> {
        let documents: Vec<Document> = documents
            .iter()
            .map(|document| parsed(document).expect("good"))
            .collect();
        let overlay = overlay(&documents).expect("good").expect("latencies");
        let untimed = overlay.untimed().into_iter();
        untimed
            .map(|found| format!("{} ({}): {}", found.case, found.measures, found.why))
            .collect()
    }

    #[test]
    fn measure_that_was_seen_from_outside_has_times() {
        let seen = [("a", false), ("a.outside", true), ("a.own_turn", false)];
        assert_eq!(said(&[board("b/none/idle", &seen)]), [""; 0]);
        let with_trip = [&seen[..], &[("round_trip", false)]].concat();
        let expected =
            "b/none/idle (round trip): not seen from outside, and kept as a histogram only";
        assert_eq!(said(&[board("b/none/idle", &with_trip)]), [expected]);
    }

    #[test]
    fn what_says_why_nobody_saw_it_is_believed_of_its_own_case() {
        let mut shared = board("b/none/idle", &[("a", false), ("a.outside", true)]);
        let hog = board("b/xen-partitioned/hog", &[("a", false), ("c", false)]);
        let more = hog["results"].as_array().expect("a list").clone();
        let results = shared["results"].as_array_mut().expect("a list");
        results.extend(more);
        shared["conditions"][UNSEEN] = json!("two CPUs");
        let expected = "b/xen-partitioned/hog (all measures): two CPUs";
        assert_eq!(said(&[shared]), [expected]);
    }

    #[test]
    fn what_is_older_is_named_where_no_other_file_has_its_times() {
        let old = board("b/none/idle", &[("a", false), ("a.outside", false)]);
        let expected =
            "b/none/idle (all measures): measured before times of single samples were kept";
        assert_eq!(said(std::slice::from_ref(&old)), [expected]);
        let new = board("b/none/idle", &[("a", false), ("a.outside", true)]);
        assert_eq!(said(&[old, new]), [""; 0]);
    }
}
