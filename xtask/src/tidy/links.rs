//! Rule `link`: a relative link in a Markdown file leads to a file, folder or heading of this
//! repository.
//!
//! Links to other hosts are not followed: a check that needs the network fails for reasons that are
//! not ours.

use super::finding::Finding;
use super::tree::{Language, Source, Tree};

pub(crate) fn check(source: &Source, tree: &Tree) -> Vec<Finding> {
    if source.language != Language::Markdown {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, _text, code) in source.lines() {
        let ours = targets(code).into_iter().filter(|target| is_ours(target));
        findings.extend(
            ours.filter(|target| !resolves(source, target, tree))
                .map(|target| {
                    let remedy = "name a file, folder or heading of this repository";
                    source.finding(line, "link", format!("{target:?} leads nowhere"), remedy)
                }),
        );
    }
    findings
}

/// Targets of `[text](target)`, `[text](target "title")` and `[label]: target` in one line.
fn targets(code: &str) -> Vec<&str> {
    let inline = code
        .split("](")
        .skip(1)
        .filter_map(|behind| behind.split([')', ' ']).next());
    let definition = code
        .trim_start()
        .strip_prefix('[')
        .and_then(|label| label.split_once("]: "));
    let defined = definition.and_then(|(_label, target)| target.split_whitespace().next());
    inline
        .chain(defined)
        .map(|target| target.trim_matches(['<', '>']))
        .collect()
}

fn is_ours(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

fn resolves(source: &Source, target: &str, tree: &Tree) -> bool {
    let (path, heading) = target
        .split_once('#')
        .map_or((target, None), |(path, heading)| (path, Some(heading)));
    let page = if path.is_empty() {
        Some(source.path.clone())
    } else {
        joined(&source.path, path)
    };
    let Some(page) = page else {
        return false;
    };
    match (tree.file(&page), heading) {
        (Some(file), Some(heading)) if file.language == Language::Markdown => {
            has_heading(file, heading)
        }
        (Some(_), _) => true,
        (None, heading) => heading.is_none() && tree.has_folder(&page),
    }
}

/// `target` as seen from the folder of `page`, or from the root if it starts with `/`; `None` if it
/// leaves the repository.
fn joined(page: &str, target: &str) -> Option<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _name)| folder);
    let start = if target.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = start.split_terminator('/').collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn has_heading(file: &Source, anchor: &str) -> bool {
    // Fenced lines are blank in `code`, but the words of a heading in backticks count: hence both.
    let headings = file
        .lines()
        .filter(|(_line, _text, code)| code.starts_with('#'));
    headings
        .map(|(_line, text, _code)| slug(text))
        .any(|slug| slug == anchor)
}

/// The anchor that forges make of a heading.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(link: &str) -> usize {
        let page = Source::new("docs/page.md", link);
        let tree = Tree::from_sources([
            Source::new(
                "README.md",
                "# The `hythe` command: use\n```\n# no heading\n```\n",
            ),
            Source::new("docs/adr/0001-queues.md", ""),
            Source::new("docs/page.md", "## Own\n"),
        ]);
        check(&page, &tree).len()
    }

    #[test]
    fn refuses_links_that_lead_nowhere() {
        for link in [
            "[a](missing.md)",
            "[a](../README.md#no-heading)",
            "[a](../../outside.md)",
            "[a](adr/0002.md) and [b](adr)",
            "[a]: missing.md",
            "[a](missing.md \"title\")",
        ] {
            assert_eq!(count(link), 1, "{link}");
        }
    }

    #[test]
    fn passes_links_that_lead_somewhere_and_those_of_others() {
        for link in [
            "[a](../README.md), [b](adr/), [c](adr/0001-queues.md)",
            "[a](../README.md#the-hythe-command-use)",
            "[`a`](./adr)",
            "[a](https://example.org/missing.md) <mailto:a@example.org>",
            "`[a](missing.md)`",
            "[a]: ../README.md",
            "[a](/README.md)",
        ] {
            assert_eq!(count(link), 0, "{link}");
        }
    }
}
