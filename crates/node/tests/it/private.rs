//! Private pools go with their process, and what makers left that are dead is removed: by proof of
//! the death, whatever its age.

use std::fs::{self, File};
use std::path::PathBuf;

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{BOUND, Root};
use hythe_node::{Node, Pool, PoolOptions, PublisherOptions, SubscriberOptions};
use rustix::fs::{FlockOperation, flock};

const OWNER: &str = "owner of a private pool";

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    if own_role().is_none() {
        return;
    }
    let pool = Pool::create_private(&PoolOptions::new("own").small().bytes(2 << 20));
    let pool = pool.expect("made");
    let _node = Node::join(&pool, OWNER).expect("joins");
    say("ready");
    until_told();
}

fn options(root: &Root) -> PoolOptions {
    root.options().small().bytes(2 << 20)
}

/// Names in the user's directory.
fn names(root: &Root) -> Vec<String> {
    let user = root.options().path();
    let user = user.parent().expect("has one");
    let Ok(listing) = fs::read_dir(user) else {
        return Vec::new();
    };
    let names = listing.map(|entry| entry.expect("read").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

fn is_empty(root: &Root) -> bool {
    fs::read_dir(root.path()).expect("own").count() == 0 || names(root).is_empty()
}

#[test]
fn private_pool_is_used_and_goes_with_its_last_handle() {
    let root = Root::new();
    let pool = Pool::create_private(&options(&root)).expect("made");
    let node = Node::join(&pool, "alone").expect("joins");
    drop(pool);
    let mut subscriber = node
        .subscriber("data", &SubscriberOptions::default())
        .expect("opens");
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let mut lease = publisher.lease(5).expect("free");
    lease.write(0, b"heard");
    assert_eq!(publisher.publish(lease, 5).expect("room").delivered, 1);
    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    drop((node, publisher, subscriber));
    assert_eq!(sample.to_vec(), b"heard");
    assert_eq!(names(&root).len(), 1);
    drop(sample);
    assert!(is_empty(&root), "{:?}", names(&root));
}

#[test]
fn nobody_finds_a_private_pool() {
    let root = Root::new();
    let pool = Pool::create_private(&options(&root)).expect("made");
    assert_eq!(Pool::list(&root.options()).expect("lists"), [""; 0]);
    Pool::open(&options(&root)).expect_err("it does not have that name");
    let hidden = PoolOptions::new(pool.options().name()).root(root.path());
    Pool::open(&hidden).expect_err("not a name to ask for");
    // Another of the same process and name is another pool.
    let other = Pool::create_private(&options(&root)).expect("made");
    assert_ne!(other.path(), pool.path());
    assert!(Pool::create(&options(&root)).expect("made"));
    assert_eq!(Pool::list(&root.options()).expect("lists"), ["test"]);
    drop((pool, other));
    assert_eq!(names(&root), ["test"]);
}

#[test]
fn what_a_killed_owner_left_goes_with_the_next_pool() {
    type Next = fn(&Root);
    let nexts: [Next; 3] = [
        |root| drop(Pool::create_private(&options(root)).expect("made")),
        |root| {
            assert!(
                Pool::create(
                    &PoolOptions::new("next")
                        .root(root.path())
                        .small()
                        .bytes(2 << 20)
                )
                .expect("made")
            )
        },
        |root| Pool::remove(&options(root)).expect("nobody is in it"),
    ];
    for next in nexts {
        let root = Root::new();
        assert!(Pool::create(&options(&root)).expect("made"));
        let mut killed = Player::start(&root, OWNER);
        let living = Player::start(&root, OWNER);
        assert_eq!((&*killed.hear(), &*living.hear()), ("ready", "ready"));
        assert_eq!(names(&root).len(), 3);
        killed.kill();
        assert_eq!(names(&root).len(), 3, "a killed process removes nothing");
        next(&root);
        let private = |root: &Root| {
            let names = names(root).into_iter();
            names.filter(|name| name.starts_with(".private.")).count()
        };
        assert_eq!(private(&root), 1, "{:?}", names(&root));
        living.end();
        assert_eq!(private(&root), 0, "{:?}", names(&root));
    }
}

/// What a maker leaves that dies before its pool has a name.
fn half_made(root: &Root, number: u32) -> PathBuf {
    let user = root.options().path();
    let path = user
        .parent()
        .expect("has one")
        .join(format!(".making.{number:016x}.test"));
    fs::create_dir_all(path.join("members")).expect("own");
    fs::write(path.join("control"), vec![0; 8192]).expect("room");
    path
}

#[test]
fn only_what_dead_makers_left_is_removed() {
    let root = Root::new();
    assert!(Pool::create(&options(&root)).expect("made"));
    let (dead, living) = (half_made(&root, 1), half_made(&root, 2));
    let locked = File::open(&living).expect("own");
    flock(&locked, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
    assert!(!Pool::create(&options(&root)).expect("it is there"));
    assert!(!dead.exists() && living.exists());
    // Another test that starts a process lends it this file for a moment: closing it is not enough.
    flock(&locked, FlockOperation::Unlock).expect("it is locked");
    Pool::remove(&options(&root)).expect("nobody is in it");
    assert!(is_empty(&root), "{:?}", names(&root));
}
