//! Where this task, its siblings and its parent run, as whoever started it says.

use hythe_cluster::tasks::TaskId;

use crate::numbers::{local_of, tid_of};
use crate::session::variables;
use crate::tid::{FIRST_HOST, Tid};

/// Where it runs, and where those do that were started with it.
#[derive(Debug)]
pub(super) struct Place {
    /// Its host.
    pub(super) own: Tid,
    /// By ranks; none: all on the first.
    siblings: Vec<Tid>,
    parent: Option<Tid>,
}

impl Place {
    /// As the environment says.
    pub(super) fn of_this_process() -> Self {
        let rank = std::env::var("HYTHE_RANK").ok();
        let rank = rank.and_then(|text| text.parse().ok()).unwrap_or(0);
        Self::new(rank, |name| std::env::var(name).ok())
    }

    fn new(rank: usize, variable: impl Fn(&str) -> Option<String>) -> Self {
        let places = variable(variables::PLACES).unwrap_or_default();
        let places = places.split_whitespace().map(|number| {
            let number = number.parse().ok();
            number.and_then(Tid::numbered_host).unwrap_or(FIRST_HOST)
        });
        let parent = variable(variables::PARENT).and_then(|text| text.parse().ok());
        let mut place = Self {
            own: FIRST_HOST,
            siblings: places.collect(),
            parent: parent.map(Tid::from_number),
        };
        place.own = place.of_rank(rank);
        place
    }

    /// The host of the one of this rank.
    pub(super) fn of_rank(&self, rank: usize) -> Tid {
        self.siblings.get(rank).copied().unwrap_or(FIRST_HOST)
    }

    /// The number of the parent, which is that task.
    pub(super) fn parent(&self, parent: TaskId) -> Option<Tid> {
        let told = self.parent.filter(|told| told.local() == local_of(parent));
        told.or_else(|| tid_of(parent, FIRST_HOST))
    }
}

/// The task that this process, or one before it, was started as.
pub(super) fn started() -> Option<TaskId> {
    std::env::var("HYTHE_TASK").ok()?.parse().ok()
}

/// The value of the variable that says where tasks are started together.
#[must_use]
pub fn places_text(places: impl Iterator<Item = Tid>) -> String {
    let numbers = places.map(|host| host.host_number().to_string());
    numbers.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_by_rank_and_the_first_where_nothing_is_said() {
        let host = |number| Tid::numbered_host(number).expect("in range");
        let text = places_text([host(2), host(1), host(3)].into_iter());
        assert_eq!(text, "2 1 3");
        let place = Place::new(2, |name| match name {
            variables::PLACES => Some(text.clone()),
            variables::PARENT => Some(
                Tid::task(host(3), 512)
                    .expect("in range")
                    .number()
                    .to_string(),
            ),
            _ => None,
        });
        assert_eq!(place.own, host(3));
        assert_eq!((place.of_rank(0), place.of_rank(7)), (host(2), FIRST_HOST));
        let parent = |text: &str| place.parent(text.parse().expect("a task"));
        assert_eq!(parent("9.1.0"), Tid::task(host(3), 512));
        assert_eq!(parent("9.1.1"), Tid::task(FIRST_HOST, 513), "another one");
        assert_eq!(Place::new(0, |_| None).own, FIRST_HOST);
    }
}
