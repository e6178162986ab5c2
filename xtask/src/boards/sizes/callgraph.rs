//! Stack along calls, out of what GCC writes by `-fcallgraph-info=su`: a node per function with the
//! bytes of its frame, an edge per call.
//!
//! A function that no file of the library defines, and a call through a pointer, count as nothing.
//! Never looks at machine code.

use std::collections::BTreeMap;

/// Bytes of stack, and the functions that take them.
type Chain = (u64, Vec<String>);

/// The calls of the library, module by module.
#[derive(Debug, Default)]
pub(super) struct Graph {
    functions: BTreeMap<String, Function>,
}

#[derive(Debug, Default)]
struct Function {
    /// Where it is defined, and its frame; none: not here.
    here: Option<(String, u64)>,
    calls: Vec<String>,
}

impl Graph {
    /// Takes the file of one module.
    pub(super) fn add(&mut self, module: &str, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let field = |name: &str| {
                let (_, rest) = line.split_once(&format!("{name}: \""))?;
                rest.split_once('"').map(|(value, _)| value)
            };
            if let (Some(title), true) = (field("title"), line.starts_with("node:")) {
                let frame = frame(field("label").unwrap_or_default())?;
                if let Some(frame) = frame {
                    let function = self.functions.entry(title.to_owned()).or_default();
                    function.here = Some((module.to_owned(), frame));
                }
            } else if let (Some(from), Some(to)) = (field("sourcename"), field("targetname")) {
                let function = self.functions.entry(from.to_owned()).or_default();
                function.calls.push(to.to_owned());
            }
        }
        Ok(())
    }

    /// The most that a function of `module` takes with all it calls, and by which chain.
    pub(super) fn deepest(&self, module: &str) -> Result<(u64, String), String> {
        let mut deepest = Chain::default();
        for (title, function) in &self.functions {
            if function
                .here
                .as_ref()
                .is_some_and(|(home, _)| home == module)
            {
                let found = self.below(title, &mut Vec::new())?;
                deepest = deeper(deepest, found);
            }
        }
        Ok((deepest.0, deepest.1.join(" > ")))
    }

    fn below(&self, title: &str, path: &mut Vec<String>) -> Result<Chain, String> {
        let known = self.functions.get(title);
        let Some((function, (_, frame))) = known.and_then(|it| Some((it, it.here.as_ref()?)))
        else {
            return Ok(Chain::default());
        };
        if path.iter().any(|above| above == title) {
            return Err(format!("{title} calls itself, so nothing bounds its stack"));
        }
        path.push(title.to_owned());
        let mut deepest = Chain::default();
        for call in &function.calls {
            deepest = deeper(deepest, self.below(call, path)?);
        }
        path.pop();
        deepest.0 += frame;
        // Of a static function the file's name is in front.
        let name = title.rsplit(':').next().unwrap_or(title);
        deepest.1.insert(0, name.to_owned());
        Ok(deepest)
    }
}

/// Of two chains of one depth the longer: a caller may need no frame.
fn deeper(one: Chain, other: Chain) -> Chain {
    if (other.0, other.1.len()) > (one.0, one.1.len()) {
        other
    } else {
        one
    }
}

/// Bytes in a node's label, whose lines are separated by `\n` in letters; none: no definition.
fn frame(label: &str) -> Result<Option<u64>, String> {
    let Some(line) = label.split("\\n").find(|line| line.contains(" bytes (")) else {
        return Ok(None);
    };
    let bytes = line.split(' ').next().and_then(|count| count.parse().ok());
    match bytes {
        Some(bytes) if line.ends_with("(static)") => Ok(Some(bytes)),
        _ => Err(format!("a frame without a bound: {label}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "\
graph: { title: \"one.c\"
node: { title: \"outer\" label: \"outer\\none.c:1:1\\n16 bytes (static)\" }
node: { title: \"one.c:inner\" label: \"inner\\none.c:2:1\\n8 bytes (static)\" }
node: { title: \"other\" label: \"other\\ntwo.h:1:1\" shape : ellipse }
edge: { sourcename: \"outer\" targetname: \"one.c:inner\" label: \"one.c:3:1\" }
edge: { sourcename: \"outer\" targetname: \"other\" label: \"one.c:4:1\" }
edge: { sourcename: \"outer\" targetname: \"__indirect_call\" label: \"one.c:5:1\" }
}
";

    #[test]
    fn deepest_chain_goes_through_other_modules() {
        let mut graph = Graph::default();
        graph.add("one", ONE).expect("a graph");
        assert_eq!(graph.deepest("one"), Ok((24, "outer > inner".to_owned())));
        let two = "node: { title: \"other\" label: \"other\\ntwo.c:1:1\\n40 bytes (static)\" }\n";
        graph.add("two", two).expect("a graph");
        assert_eq!(graph.deepest("one"), Ok((56, "outer > other".to_owned())));
        assert_eq!(graph.deepest("two"), Ok((40, "other".to_owned())));
    }

    #[test]
    fn recursion_and_frames_of_changing_size_are_refused() {
        let mut graph = Graph::default();
        graph.add("one", ONE).expect("a graph");
        let back = "edge: { sourcename: \"one.c:inner\" targetname: \"outer\" label: \"\" }\n";
        graph.add("one", back).expect("a graph");
        let error = graph.deepest("one").expect_err("recursion");
        assert!(error.contains("calls itself"), "{error}");
        let dynamic = ONE.replace("16 bytes (static)", "16 bytes (dynamic)");
        let error = Graph::default().add("one", &dynamic).expect_err("dynamic");
        assert!(error.contains("without a bound"), "{error}");
    }
}
