//! Random histories of what crosses to a core and back, over the rows of several of its ports:
//! lease, duplicate, give, reclaim and release by members that die before any store of theirs.
//! After each step references are what was counted: a step that was not finished has happened, or
//! has not, and no reference was made or lost.
//!
//! Seeded: `HYTHE_FUZZ_SEED=17 cargo test -p hythe-pool --test it core_histories`.

use std::collections::BTreeMap;

use crate::hostile_peer::choices::Choices;
use crate::world::{self, Dying, World, lease, until_death};
use hythe_pool::{Control, LedgerSlot, Member, MemberIndex, MemberKind};

const MEMBERS: usize = 3;
const ROWS: usize = 3;
const HISTORIES: u64 = if cfg!(miri) { 1 } else { 60 };
const STEPS: u32 = if cfg!(miri) { 40 } else { 300 };
/// Stores of the longest step are fewer.
const STORES: u32 = 40;

/// References of a member or row to a slot.
type Counts = BTreeMap<(MemberIndex, LedgerSlot), u32>;

/// One step of one member.
#[derive(Clone, Copy, Debug)]
enum Step {
    Lease,
    Duplicate(LedgerSlot, u32),
    Give(MemberIndex, LedgerSlot, u32),
    Reclaim(MemberIndex, LedgerSlot, u32),
    Release(LedgerSlot, u32),
}

struct History {
    world: World,
    members: Vec<Member>,
    rows: Vec<MemberIndex>,
    counts: Counts,
    choices: Choices,
}

impl History {
    fn new(seed: u64) -> Self {
        let world = World::new();
        let members = (0..MEMBERS).map(|number| world.join(&format!("member {number}")));
        let members = members.collect();
        let row = |number| world.join_as(MemberKind::CoreEndpoint, &format!("core#{number}"));
        let rows = (0..ROWS).map(|number| row(number).index()).collect();
        Self {
            world,
            members,
            rows,
            counts: Counts::new(),
            choices: Choices::Seed(seed),
        }
    }

    /// Something that the member, or a row, has.
    fn pick(&mut self, of: &[MemberIndex]) -> Option<(MemberIndex, LedgerSlot, u32)> {
        let has = self.counts.iter();
        let has: Vec<_> = has
            .filter(|((holder, _), count)| of.contains(holder) && **count > 0)
            .map(|((holder, slot), count)| (*holder, *slot, *count))
            .collect();
        let index = self.choices.below(has.len() as u32) as usize;
        has.get(index).copied()
    }

    fn next(&mut self, member: MemberIndex) -> Step {
        let rows = self.rows.clone();
        let own = self.pick(&[member]);
        let lent = self.pick(&rows);
        let choices = &mut self.choices;
        let row = rows[choices.below(ROWS as u32) as usize];
        let part = |choices: &mut Choices, count: u32| 1 + choices.below(count);
        match (choices.below(6), own, lent) {
            (1, Some((_, slot, _)), _) => Step::Duplicate(slot, part(choices, 3)),
            (2, Some((_, slot, count)), _) => Step::Give(row, slot, part(choices, count)),
            (3, Some((_, slot, count)), _) => Step::Release(slot, part(choices, count)),
            // One more than the row has, too: what a core returns that it never had.
            (4 | 5, _, Some((row, slot, count))) => {
                Step::Reclaim(row, slot, part(choices, count + 1))
            }
            _ => Step::Lease,
        }
    }

    /// One step of one member, which may die before a store of it.
    fn step(&mut self) {
        let number = self.choices.below(MEMBERS as u32) as usize;
        let member = self.members[number].index();
        let step = self.next(member);
        let control = self.world.dying();
        let dies = self.choices.below(4) == 0;
        let store = if dies {
            1 + self.choices.below(STORES)
        } else {
            0
        };
        control.memory().fault.arm(store);
        let acting = &mut self.members[number];
        let done = until_death(|| act(acting, &control, &self.world, step));
        control.memory().fault.arm(0);
        let context = format!("{step:?} by {member:?}, done {done:?}, store {store}");
        match done {
            Some(slot) => self.count(member, step, slot),
            None => self.recover(number, step, &context),
        }
        self.world.check_sums(&context);
        self.check(&context);
    }

    fn count(&mut self, member: MemberIndex, step: Step, slot: Option<LedgerSlot>) {
        let Some(slot) = slot else { return };
        let mut add = |holder, count: i64| {
            let counted = self.counts.entry((holder, slot)).or_default();
            *counted = u32::try_from(i64::from(*counted) + count).expect("not below 0");
        };
        match step {
            Step::Lease => add(member, 1),
            Step::Duplicate(_, count) => add(member, count.into()),
            Step::Release(_, count) => add(member, -i64::from(count)),
            Step::Give(row, _, count) => {
                add(member, -i64::from(count));
                add(row, count.into());
            }
            Step::Reclaim(row, _, count) => {
                add(row, -i64::from(count));
                add(member, count.into());
            }
        }
    }

    /// The member is dead: whatever it held is given back, and what it gave or took was done, or
    /// was not. Another takes its place.
    fn recover(&mut self, number: usize, step: Step, context: &str) {
        let dead = self.members[number].index();
        let living = self.members.iter().map(Member::index);
        let living = living.filter(|index| *index != dead);
        let living: Vec<_> = living.chain(self.rows.iter().copied()).collect();
        let recoverer = &self.members[(number + 1) % MEMBERS];
        let recovered = self.world.recover(recoverer, dead, &living);
        assert!(recovered.is_some(), "{context}");
        self.counts.retain(|(holder, _), _| *holder != dead);
        if let Step::Give(row, slot, count) | Step::Reclaim(row, slot, count) = step {
            let before = self.counts.get(&(row, slot)).copied().unwrap_or(0);
            let after = match step {
                Step::Give(..) => before + count,
                _ => before.saturating_sub(count),
            };
            let found = self.world.control.ledger().held_by(row, slot);
            assert!(found == before || found == after, "{context}: {found}");
            self.counts.insert((row, slot), found);
        }
        self.members[number] = self.world.join("another");
    }

    /// Every reference is where it was counted, and nowhere else.
    fn check(&self, context: &str) {
        let ledger = self.world.control.ledger();
        let holders = self.members.iter().map(Member::index);
        for holder in holders.chain(self.rows.iter().copied()) {
            for slot in self.slots() {
                let counted = self.counts.get(&(holder, slot)).copied().unwrap_or(0);
                let found = ledger.held_by(holder, slot);
                assert_eq!(found, counted, "{context}: {holder:?} of {slot:?}");
            }
        }
    }

    fn slots(&self) -> impl Iterator<Item = LedgerSlot> + use<> {
        let regions = self.world.regions.iter();
        let slots: u32 = regions.map(|region| region.slots).sum();
        (0..slots).map(LedgerSlot)
    }

    /// The core dies, too, then everybody: all is free.
    fn end(self) {
        let last = self.world.join("last");
        self.world.bury(&last, &[last.index()], false);
        for slot in self.slots() {
            assert_eq!(self.world.control.ledger().slot(slot).0, 0, "{slot:?}");
        }
    }
}

/// Does it. The slot, if something was done.
fn act(
    member: &mut Member,
    control: &Control<Dying>,
    world: &World,
    step: Step,
) -> Option<LedgerSlot> {
    match step {
        Step::Lease => {
            let held = world.control.ledger();
            let is_free = |slot: &u32| held.slot(LedgerSlot(*slot)).0 == 0;
            // The harness' lease is of the small class, and expects that there is one.
            (0..world::SMALL_SLOTS).find(is_free)?;
            Some(lease(member, control, &world.regions).slot)
        }
        Step::Duplicate(slot, count) => {
            member.duplicate(control, slot, count).expect("its own");
            Some(slot)
        }
        Step::Give(row, slot, count) => {
            member.give(control, row, slot, count).expect("its own");
            Some(slot)
        }
        Step::Reclaim(row, slot, count) => {
            let taken = member.reclaim(control, row, slot, count);
            taken.expect("no damage").then_some(slot)
        }
        Step::Release(slot, count) => {
            member.release(control, slot, count).expect("its own");
            Some(slot)
        }
    }
}

#[test]
fn references_add_up_whoever_gives_takes_or_dies() {
    let seed = std::env::var("HYTHE_FUZZ_SEED");
    let first = seed.map_or(1, |seed| seed.parse().expect("a number"));
    for seed in first..first + HISTORIES {
        println!("HYTHE_FUZZ_SEED={seed}");
        let mut history = History::new(seed);
        (0..STEPS).for_each(|_| history.step());
        history.end();
    }
}
