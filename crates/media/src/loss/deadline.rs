//! What a receiver does about a missing packet, given when it has to be there; and what became of those that were missing.
//!
//! The reordering buffer knows which numbers are missing and since when; it asks [`decide`] for each when the time it was told
//! comes, and reports the end to a [`Record`]. Asking again costs bandwidth where there may be least, so it comes last that still
//! comes in time: first a late packet may arrive by itself, then parity may repair it, and only when waiting any longer would leave
//! too little for a round trip is it asked for; again after each round trip without an answer.

/// What the receiver knows about its way; all in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// From asking to the answer. `None`: nobody answers, or nothing is known yet and asking is off.
    pub round_trip_ns: Option<u64>,
    /// How late packets come by themselves.
    pub reorder_ns: u64,
    /// From a packet to the last parity that covers it: two matrices, where columns are protected. `None`: no parity is sent.
    pub parity_ns: Option<u64>,
    /// How often a packet is asked for.
    pub requests_max: u8,
}

/// A packet that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// When it was seen to be.
    pub since_ns: u64,
    /// When it has to be there.
    pub deadline_ns: u64,
    /// How often it was asked for.
    pub requests: u8,
    /// When last; means nothing without a request.
    pub requested_ns: u64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may come by itself. Decide again then.
    Wait {
        /// When.
        until_ns: u64,
    },
    /// Parity may repair it. Decide again then.
    Fec {
        /// When.
        until_ns: u64,
    },
    /// Ask for it now, and decide again in the same instant.
    Nack,
    /// It is too late: go on without.
    Lost,
}

/// What to do at `now_ns` about a missing packet.
#[must_use]
pub fn decide(missing: &Missing, way: &Way, now_ns: u64) -> Decision {
    let deadline_ns = missing.deadline_ns;
    if now_ns >= deadline_ns {
        return Decision::Lost;
    }
    let reordered_ns = missing.since_ns.saturating_add(way.reorder_ns);
    if now_ns < reordered_ns {
        let until_ns = reordered_ns.min(deadline_ns);
        return Decision::Wait { until_ns };
    }
    let parity_due_ns = way
        .parity_ns
        .map(|parity_ns| missing.since_ns.saturating_add(parity_ns))
        .filter(|due_ns| *due_ns > now_ns);
    match next_request(missing, way, parity_due_ns, now_ns) {
        Some(at_ns) if at_ns <= now_ns => Decision::Nack,
        Some(at_ns) if parity_due_ns.is_some() => Decision::Fec { until_ns: at_ns },
        Some(at_ns) => Decision::Wait { until_ns: at_ns },
        None if parity_due_ns.is_some() => Decision::Fec {
            until_ns: deadline_ns,
        },
        None => Decision::Wait {
            until_ns: deadline_ns,
        },
    }
}

/// When it is to be asked for; `None`: an answer would not come in time, or enough were tried.
fn next_request(
    missing: &Missing,
    way: &Way,
    parity_due_ns: Option<u64>,
    now_ns: u64,
) -> Option<u64> {
    let round_trip_ns = way.round_trip_ns?;
    if missing.requests >= way.requests_max {
        return None;
    }
    // The answer to a request at this instant comes just in time.
    let latest_ns = missing.deadline_ns.checked_sub(round_trip_ns)?;
    let at_ns = if missing.requests > 0 {
        missing.requested_ns.saturating_add(round_trip_ns)
    } else {
        // Early enough for a second request, should the first or its answer be lost.
        let spare_ns = latest_ns.saturating_sub(round_trip_ns);
        parity_due_ns.map_or(missing.since_ns, |due_ns| due_ns.min(spare_ns))
    };
    let at_ns = at_ns.max(now_ns);
    (at_ns <= latest_ns).then_some(at_ns)
}

/// How a missing packet came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Late, by itself.
    Reordered,
    /// It was sent again.
    Retransmitted,
    /// Parity.
    Fec,
}

/// Packets that follow each other and were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Number of the first.
    pub first: u16,
    /// How many, 65,535 at most.
    pub packets: u16,
    /// When the last of them was given up.
    pub at_ns: u64,
}

/// Most gaps that are named; older ones are in the count only.
pub const GAPS_MAX: usize = 64;

/// What became of missing packets.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Came late by themselves.
    pub reordered: u64,
    /// Were sent again in time.
    pub retransmitted: u64,
    /// Were repaired by parity in time.
    pub by_fec: u64,
    /// Were not there in time.
    pub lost: u64,
    /// Were repaired, or came, after they had been given up.
    pub too_late: u64,
    gaps: std::collections::VecDeque<Gap>,
}

impl Record {
    /// An empty record.
    #[must_use]
    pub fn new() -> Self {
        Self {
            gaps: std::collections::VecDeque::with_capacity(GAPS_MAX),
            ..Self::default()
        }
    }

    /// A missing packet is there in time.
    pub fn repaired(&mut self, repair: Repair) {
        let count = match repair {
            Repair::Reordered => &mut self.reordered,
            Repair::Retransmitted => &mut self.retransmitted,
            Repair::Fec => &mut self.by_fec,
        };
        *count += 1;
    }

    /// A packet is given up.
    pub fn lost(&mut self, sequence: u16, now_ns: u64) {
        self.lost += 1;
        if let Some(last) = self.gaps.back_mut()
            && last.first.wrapping_add(last.packets) == sequence
            && last.packets < u16::MAX
        {
            last.packets += 1;
            last.at_ns = now_ns;
            return;
        }
        if self.gaps.len() == GAPS_MAX {
            self.gaps.pop_front();
        }
        self.gaps.push_back(Gap {
            first: sequence,
            packets: 1,
            at_ns: now_ns,
        });
    }

    /// The last gaps, oldest first.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Way = Way {
        round_trip_ns: Some(20),
        reorder_ns: 5,
        parity_ns: None,
        requests_max: 3,
    };
    const MISSING: Missing = Missing {
        since_ns: 100,
        deadline_ns: 200,
        requests: 0,
        requested_ns: 0,
    };

    /// What is done, and when, until it is given up and nothing helps.
    fn course(way: &Way, mut missing: Missing) -> Vec<(u64, Decision)> {
        let mut now_ns = missing.since_ns;
        let mut course = Vec::new();
        while course.len() < 20 {
            let decision = decide(&missing, way, now_ns);
            course.push((now_ns, decision));
            match decision {
                Decision::Wait { until_ns } | Decision::Fec { until_ns } => {
                    assert!(now_ns < until_ns && until_ns <= missing.deadline_ns);
                    now_ns = until_ns;
                }
                Decision::Nack => {
                    missing.requests += 1;
                    missing.requested_ns = now_ns;
                }
                Decision::Lost => return course,
            }
        }
        panic!("no end: {course:?}");
    }

    #[test]
    fn it_waits_then_asks_once_a_round_trip_then_gives_up() {
        use Decision::{Lost, Nack, Wait};
        assert_eq!(
            course(&WAY, MISSING),
            [
                (100, Wait { until_ns: 105 }),
                (105, Nack),
                (105, Wait { until_ns: 125 }),
                (125, Nack),
                (125, Wait { until_ns: 145 }),
                (145, Nack),
                (145, Wait { until_ns: 200 }),
                (200, Lost),
            ]
        );
    }

    #[test]
    fn parity_is_waited_for_while_two_requests_would_still_come_in_time() {
        use Decision::{Fec, Lost, Nack, Wait};
        let soon = Way {
            parity_ns: Some(50),
            ..WAY
        };
        let course_soon = course(&soon, MISSING);
        assert_eq!(course_soon[1], (105, Fec { until_ns: 150 }));
        assert_eq!(course_soon[2], (150, Nack));
        let late = Way {
            parity_ns: Some(90),
            ..WAY
        };
        assert_eq!(
            course(&late, MISSING),
            [
                (100, Wait { until_ns: 105 }),
                (105, Fec { until_ns: 160 }),
                (160, Nack),
                (160, Fec { until_ns: 180 }),
                (180, Nack),
                (180, Fec { until_ns: 200 }),
                (200, Lost),
            ]
        );
    }

    #[test]
    fn nobody_is_asked_who_cannot_answer_in_time_or_at_all() {
        let far = Way {
            round_trip_ns: Some(101),
            ..WAY
        };
        let deaf = Way {
            round_trip_ns: None,
            parity_ns: Some(1000),
            ..WAY
        };
        // There would have been time, had it not been taken for reordered.
        let patient = Way {
            reorder_ns: 81,
            ..WAY
        };
        for way in [far, deaf, patient] {
            let course = course(&way, MISSING);
            assert!(course.iter().all(|step| step.1 != Decision::Nack));
            assert_eq!(course.last(), Some(&(200, Decision::Lost)));
        }
        assert_eq!(
            decide(&MISSING, &deaf, 105),
            Decision::Fec { until_ns: 200 }
        );
    }

    #[test]
    fn extreme_times_neither_overflow_nor_loop() {
        let edges = [0, 1, u64::MAX - 1, u64::MAX];
        for since_ns in edges {
            for deadline_ns in edges {
                for round_trip_ns in edges {
                    let way = Way {
                        round_trip_ns: Some(round_trip_ns),
                        reorder_ns: round_trip_ns,
                        parity_ns: Some(u64::MAX),
                        requests_max: 2,
                    };
                    let missing = Missing {
                        since_ns,
                        deadline_ns,
                        ..MISSING
                    };
                    course(&way, missing);
                }
            }
        }
    }

    #[test]
    fn what_became_of_packets_is_counted_and_gaps_are_named() {
        let mut record = Record::new();
        record.repaired(Repair::Reordered);
        record.repaired(Repair::Retransmitted);
        record.repaired(Repair::Fec);
        for sequence in [0xfffe, 0xffff, 0, 7] {
            record.lost(sequence, 9);
        }
        let gaps: Vec<_> = record.gaps().map(|gap| (gap.first, gap.packets)).collect();
        assert_eq!(gaps, [(0xfffe, 3), (7, 1)]);
        let counts = (record.reordered, record.retransmitted, record.by_fec);
        assert_eq!((counts, record.lost), ((1, 1, 1), 4));
        for sequence in 0..1000 {
            record.lost(sequence * 2, 10);
        }
        assert_eq!(record.gaps().count(), GAPS_MAX);
        assert_eq!(record.lost, 1004);
    }
}
