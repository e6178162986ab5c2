//! Every interleaving of an owner and of threads that are not.

use loom::sync::Arc;
use loom::thread;

use super::BiasedLock;

fn add(lock: &BiasedLock<u32>, me: u32) {
    *lock.lock_as(me) += 1;
}

/// The value is a cell that loom watches: two threads inside at once, or one that does not see what
/// another has written, fail the model.
#[test]
fn loom_another_thread_ends_the_ownership() {
    loom::model(|| {
        let lock = Arc::new(BiasedLock::with_run(0, 1));
        let owner = Arc::clone(&lock);
        let first = thread::spawn(move || {
            // Becomes the owner, and enters as such.
            add(&owner, 1);
            add(&owner, 1);
        });
        add(&lock, 2);
        first.join().unwrap();
        assert_eq!(*lock.lock_as(3), 3);
    });
}

/// One that was the owner comes late, while another has become it.
#[test]
fn loom_a_late_owner_disturbs_nobody() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let lock = Arc::new(BiasedLock::with_run(0, 1));
        add(&lock, 1);
        let others = [2, 3].map(|me| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || add(&lock, me))
        });
        add(&lock, 1);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(*lock.lock_as(4), 4);
    });
}
