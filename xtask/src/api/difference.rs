//! What changed between two sorted lists of lines, as `diff` marks it.

use std::collections::BTreeMap;

/// The lines that only one of the lists has, sorted, `-` for kept ones and `+` for new ones, and
/// their numbers; `None` if there are none.
pub(super) fn report(kept: &[&str], current: &[String]) -> Option<String> {
    let mut marks = BTreeMap::new();
    for line in kept {
        marks.insert(*line, "-");
    }
    for line in current {
        if marks.remove(line.as_str()).is_none() {
            marks.insert(line, "+");
        }
    }
    let count = |wanted| marks.values().filter(|mark| **mark == wanted).count();
    let (missing, new) = (count("-"), count("+"));
    let shown: Vec<String> = marks
        .iter()
        .map(|(line, mark)| format!("{mark} {line}"))
        .collect();
    (missing + new > 0).then(|| format!("{}\n{missing} missing, {new} new", shown.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(kept: &[&str], current: &[&str]) -> Option<String> {
        let current: Vec<String> = current.iter().map(ToString::to_string).collect();
        report(kept, &current)
    }

    #[test]
    fn names_missing_and_new_lines_beside_each_other() {
        let report = report_of(&["a: fn()", "b: fn()", "c"], &["a: fn()", "b: fn(u8)", "d"]);
        let expected = "- b: fn()\n+ b: fn(u8)\n- c\n+ d\n2 missing, 2 new";
        assert_eq!(report.as_deref(), Some(expected));
    }

    #[test]
    fn is_silent_about_equal_lists() {
        assert_eq!(report_of(&["a", "b"], &["a", "b"]), None);
        assert_eq!(report_of(&[], &[]), None);
    }
}
