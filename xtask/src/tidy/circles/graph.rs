//! A directed graph of names, and the circles in it.
//!
//! Called by the rule once for each folder of modules. Never knows what a name stands for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Edges from one name to others, each with a note.
pub(super) struct Graph<N> {
    edges: BTreeMap<String, BTreeMap<String, N>>,
}

/// The edges of one circle: from, to, the note of the edge.
pub(super) type Circle<'g, N> = Vec<(&'g str, &'g str, &'g N)>;

impl<N> Default for Graph<N> {
    fn default() -> Self {
        Self {
            edges: BTreeMap::new(),
        }
    }
}

impl<N: Ord> Graph<N> {
    /// Adds an edge. Of several notes for one edge the least stays.
    pub(super) fn add(&mut self, from: &str, to: &str, note: N) {
        let edges = self.edges.entry(from.to_owned()).or_default();
        match edges.get_mut(to) {
            Some(known) if *known <= note => {}
            Some(known) => *known = note,
            None => drop(edges.insert(to.to_owned(), note)),
        }
    }

    /// For each name that is in a circle, the shortest through it; each circle once.
    pub(super) fn circles(&self) -> Vec<Circle<'_, N>> {
        let mut seen = BTreeSet::new();
        let mut circles: Vec<_> = self
            .edges
            .keys()
            .filter_map(|name| self.shortest_circle(name))
            .collect();
        circles.sort_by_key(Vec::len);
        circles.retain(|circle| {
            let names: BTreeSet<_> = circle.iter().map(|(from, _to, _note)| *from).collect();
            seen.insert(names)
        });
        circles
    }

    fn shortest_circle(&self, start: &str) -> Option<Circle<'_, N>> {
        // For each name that was reached, the edge by which it was reached first.
        let mut reached: BTreeMap<&str, (&str, &str, &N)> = BTreeMap::new();
        let mut next = VecDeque::from([self.edges.get_key_value(start)?.0.as_str()]);
        while let Some(from) = next.pop_front() {
            for (to, note) in self.edges.get(from).into_iter().flatten() {
                if !reached.contains_key(to.as_str()) {
                    reached.insert(to, (from, to, note));
                    next.push_back(to);
                }
            }
        }
        let mut circle = vec![*reached.get(start)?];
        while let Some((from, _to, _note)) = circle.last()
            && *from != start
        {
            circle.push(reached[from]);
        }
        circle.reverse();
        Some(circle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(edges: &[(&str, &str)]) -> Vec<String> {
        let mut graph = Graph::default();
        for (from, to) in edges {
            graph.add(from, to, ());
        }
        let names = |circle: &Circle<()>| {
            let froms: Vec<&str> = circle.iter().map(|(from, _to, ())| *from).collect();
            froms.join(" ")
        };
        graph.circles().iter().map(names).collect()
    }

    #[test]
    fn finds_the_shortest_circle_through_each_name() {
        let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("b", "a"), ("c", "d")];
        assert_eq!(circles(&edges), ["a b", "c a b"]);
    }

    #[test]
    fn paths_that_meet_again_are_no_circle() {
        let edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")];
        assert_eq!(circles(&edges), [""; 0]);
    }

    #[test]
    fn least_note_stays() {
        let mut graph = Graph::default();
        for note in [7, 3, 5] {
            graph.add("a", "b", note);
            graph.add("b", "a", note);
        }
        assert_eq!(graph.circles(), [[("a", "b", &3), ("b", "a", &3)]]);
    }
}
