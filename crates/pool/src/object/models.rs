//! A model of the lock (loom): one adds twice and dies at a word of its choice, another comes
//! meanwhile or after its death is known; what was begun is done or undone, and nothing is lost.

use hythe_abi::objects::object;
use hythe_memory::model::ModelMemory;
use hythe_memory::{Memory, Ordering};
use loom::sync::Arc;
use loom::thread;

use super::section::Section;
use super::{Owner, Party, SectionTaken};
use crate::tables::members::MemberIndex;

const PLACE: (usize, usize) = (0, 0);
/// A word that counts, and one that must be equal to it.
const COUNT: usize = object::VALUE;
const EQUAL: usize = object::ABANDONED;

fn owner(member: u8) -> Owner {
    Owner::from(Party {
        member: MemberIndex(member),
        session: 1,
    })
}

fn memory() -> Arc<ModelMemory> {
    let bytes = object::UNDO + 32;
    Arc::new(ModelMemory::new(bytes / 4, object::LOCK / 8 + 1))
}

fn add_one(memory: &ModelMemory, me: Owner, dead: Option<Owner>) -> Result<(), SectionTaken> {
    let mut section = Section::enter(memory, PLACE, me, dead)?;
    section.settle().expect("no damage");
    let before = section.load(COUNT);
    assert_eq!(before, section.load(EQUAL), "seen whole");
    section.set(COUNT, before + 1);
    section.set(EQUAL, before + 1);
    section.commit();
    Ok(())
}

#[test]
fn two_at_once_each_add_one() {
    loom::model(|| {
        let memory = memory();
        let theirs = Arc::clone(&memory);
        let other = thread::spawn(move || u32::from(add_one(&theirs, owner(1), None).is_ok()));
        let own = u32::from(add_one(&memory, owner(0), None).is_ok());
        let added = own + other.join().expect("no panic");
        assert!(added > 0, "one of them had the lock");
        assert_eq!(memory.load(COUNT, Ordering::Relaxed), added);
    });
}

/// The lock's cell still names the dead: it died with a change half done.
fn die_within(memory: &ModelMemory) {
    let section = Section::enter(memory, PLACE, owner(0), None).expect("free");
    // As `commit` stores: both notes, their number, one of the two words.
    for (index, at) in [COUNT, EQUAL].into_iter().enumerate() {
        let note = object::UNDO + index * 8;
        memory.store(note, at as u32, Ordering::Release);
        memory.store(
            note + 4,
            memory.load(at, Ordering::Relaxed),
            Ordering::Release,
        );
    }
    memory.store(object::UNDO_COUNT, 2, Ordering::Release);
    memory.store(COUNT, 7, Ordering::Release);
    std::mem::forget(section);
}

#[test]
fn two_that_take_over_from_the_dead_do_not_both_have_it() {
    loom::model(|| {
        let memory = memory();
        let theirs = Arc::clone(&memory);
        thread::spawn(move || die_within(&theirs))
            .join()
            .expect("no panic");
        let theirs = Arc::clone(&memory);
        let dead = Some(owner(0));
        let other = thread::spawn(move || u32::from(add_one(&theirs, owner(1), dead).is_ok()));
        let own = u32::from(add_one(&memory, owner(2), dead).is_ok());
        let added = own + other.join().expect("no panic");
        assert_eq!(added, 1, "the dead is followed by one");
        assert_eq!(
            memory.load(COUNT, Ordering::Relaxed),
            1,
            "undone, then one added"
        );
        assert_eq!(memory.load(EQUAL, Ordering::Relaxed), 1);
    });
}
