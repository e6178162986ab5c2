//! Names of the inside that no application may reach, by path or in the signature of what it calls.

/// Whole segments of paths. With what they stand for, a program could act as another member of the
/// pool, or change records that only the node and the hops keep consistent.
const FORBIDDEN: &[&str] = &[
    "Control",
    "LinkMap",
    "Mapped",
    "Member",
    "Participant",
    "Recoverer",
    "Transport",
    "act",
    "add_core_region",
    "attach_core",
    "bind_core",
    "detach_core",
    "full_barrier",
    "holders_of_slots",
    "join_core",
    "take_back_from_core",
    "unbind_core",
];

/// Paths of something else that has such a name.
const HARMLESS: &[&str] = &["hythe::inspect::HolderKind::Member"];

/// An error if a line names what is forbidden.
pub(super) fn check(lines: &[String]) -> Result<(), String> {
    check_against(lines, FORBIDDEN)
}

fn check_against(lines: &[String], forbidden: &[&str]) -> Result<(), String> {
    let is_harmless = |line: &&String| {
        let path = line
            .split_once(": ")
            .map_or(line.as_str(), |(path, _what)| path);
        HARMLESS.contains(&path)
    };
    let lines: Vec<&String> = lines.iter().filter(|line| !is_harmless(line)).collect();
    let mut findings: Vec<String> = Vec::new();
    for name in forbidden {
        let reaching = lines.iter().filter(|line| names_segment(line, name));
        findings.extend(reaching.map(|line| {
            format!(
                "{line}\n  names `{name}`, which no application may reach: \
             keep it out of public signatures and of what `hythe` re-exports"
            )
        }));
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\napi: {} findings about internal names",
        findings.join("\n"),
        findings.len()
    ))
}

fn names_segment(line: &str, name: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .any(|segment| segment == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_lines(lines: &[&str], forbidden: &[&str]) -> Result<(), String> {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        check_against(&lines, forbidden)
    }

    #[test]
    fn finds_whole_segments_in_paths_and_signatures() {
        for line in [
            "hythe::act: fn()",
            "hythe::act::Plan: struct",
            "hythe::Node::act: fn(&self)",
            "hythe::Node::plan: fn(&self) -> Option<&hythe_pool::act>",
        ] {
            let message = check_lines(&[line], &["act"]).expect_err(line);
            assert!(
                message.contains(line) && message.contains("`act`"),
                "{message}"
            );
        }
    }

    #[test]
    fn passes_names_that_contain_them() {
        let lines = [
            "hythe::exact: fn()",
            "hythe::act_on: fn()",
            "hythe::Actor: struct",
        ];
        assert_eq!(check_lines(&lines, &["act"]), Ok(()));
    }

    #[test]
    fn passes_a_variant_that_only_shares_the_name() {
        let variant = "hythe::inspect::HolderKind::Member: variant(MemberIndex)";
        assert_eq!(check_lines(&[variant], &["Member"]), Ok(()));
        let method = "hythe::inspect::HolderKind::Member::act: fn()";
        assert!(check_lines(&[method], &["Member"]).is_err());
    }
}
