//! `rtos/apps/rhealstone` and a Linux that answers it badly, not at all, and again: what the core
//! makes of it, as it tells.

use std::time::{Duration, Instant};

use crate::support::{LONG, World, board};
use hythe_node::{Node, Publisher, PublisherOptions, Sample, Subscriber, SubscriberOptions};
use hythe_rtcore::{Board, Core, CoreOptions};

const QUESTION_BYTES: usize = 8;

/// Both ends of Linux.
struct Answers {
    questions: Subscriber,
    answers: Publisher,
}

impl Answers {
    fn open(node: &Node) -> Self {
        let answers = node
            .publisher("answer", &PublisherOptions::default())
            .expect("answers");
        let questions = node
            .subscriber("question", &SubscriberOptions::default().depth(8))
            .expect("questions");
        Self { questions, answers }
    }

    /// Hands the next question on as its answer, behind what `before` does. Returns how many
    /// answers the core still wants.
    fn answer(&mut self, before: impl FnOnce(&mut Publisher, u32)) -> u32 {
        let question = self.question(LONG).expect("a question");
        before(&mut self.answers, word(&question, 0));
        let left = word(&question, 4);
        self.answers.forward(question).expect("forwarded");
        left
    }

    fn question(&mut self, bound: Duration) -> Option<Sample> {
        let question = self.questions.take(bound).expect("taken")?;
        assert_eq!(question.len(), QUESTION_BYTES);
        Some(question)
    }
}

/// Of a question: its number at 0, how many answers the core still wants at 4.
fn word(question: &Sample, at: usize) -> u32 {
    let mut word = [0; 4];
    question.read(at, &mut word);
    u32::from_le_bytes(word)
}

fn send(to: &mut Publisher, bytes: &[u8]) {
    let mut lease = to.lease(bytes.len()).expect("a slot");
    lease.write(0, bytes);
    to.publish(lease, bytes.len()).expect("published");
}

/// The conditions, and how many records follow them.
fn told(node: &Node) -> (String, usize) {
    let mut records = node
        .subscriber("latency", &SubscriberOptions::default().depth(32))
        .expect("records");
    let mut take = || records.take(LONG).expect("taken").expect("a record");
    let conditions = String::from_utf8(take().to_vec()).expect("a text");
    let said = conditions
        .lines()
        .find_map(|line| line.strip_prefix("histograms="));
    let count = said.expect("how many").parse().expect("a number");
    for _ in 0..count {
        assert_eq!(take().to_vec()[..4], *b"HYHG");
    }
    (conditions, count)
}

fn start(world: &World, board: &Board) -> Core {
    let options = CoreOptions::default().app("rhealstone").start_bound(LONG);
    Core::start(&world.pool, board, &options).expect("a core")
}

#[test]
fn bad_answers_are_passed_over_and_missing_ones_end_it() {
    let Some(board) = board("hosted") else {
        return;
    };
    let world = World::new();
    let core = start(&world, &board);
    let node = hythe_rtcore::join(&world.pool, "answers").expect("a node");
    let (conditions, before) = told(&node);
    assert!(!conditions.contains("round_trip"), "{conditions}");

    let mut linux = Answers::open(&node);
    let wanted = linux.answer(|_, _| ());
    assert!(wanted > 1000, "{wanted}");
    // Another's number, and none at all: had they counted, they would be answers to the next
    // questions, too.
    let left = linux.answer(|answers, number| {
        send(answers, &[(number + 1).to_le_bytes(), [0; 4]].concat());
        send(answers, &[number.to_le_bytes(), [0; 4]].concat()[..7]);
    });
    assert!(left >= wanted - 1);
    let unanswered = linux.question(LONG).expect("a question");
    if let Some(again) = linux.question(Duration::from_millis(300)) {
        assert_eq!(word(&again, 4), word(&unanswered, 4));
    }
    drop(unanswered);
    drop(linux);
    // It stops asking by itself, and has no round trips to tell.
    let began = Instant::now();
    let (conditions, without) = told(&node);
    assert_eq!(without, before, "{conditions}");
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "it gave up at once"
    );

    let mut linux = Answers::open(&node);
    assert_eq!(linux.answer(|_, _| ()), wanted, "it begins anew");
    while linux.answer(|_, _| ()) > 1 {}
    drop(linux);
    let (conditions, with) = told(&node);
    assert_eq!(with, before + 1);
    assert!(conditions.contains("discarded.round_trip="), "{conditions}");
    drop(node);
    core.stop().expect("stopped");
    world.assert_clean();
}
