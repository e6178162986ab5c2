//! A core that runs `p1`, and its tasks as Linux sees them (`rtos/apps/p1/README.md`).

use hythe_node::rpc::Caller;
use hythe_node::{Client, ClientOptions, Node, NodeError};
use hythe_rtcore::tasks::{TaskInfo, Tasks};
use hythe_rtcore::{Board, Core, CoreOptions};

use super::{LONG, World, boards};

/// A method of `p1` that returns its argument in reverse order.
const REVERSE: u32 = 1;

pub struct P1 {
    pub tasks: Tasks,
    pub client: Client,
    pub node: Node,
    pub core: Core,
    pub world: World,
}

impl P1 {
    pub fn start(board: &Board) -> Self {
        let world = World::new();
        let options = CoreOptions::default().start_bound(LONG).app("p1");
        let core = Core::start(&world.pool, board, &options).expect("core");
        let node = hythe_rtcore::join(&world.pool, "user").expect("joins");
        let client = node.client("core/calls", &ClientOptions::default());
        let tasks = Tasks::open(&world.pool, core.name(), "control").expect("control");
        Self {
            tasks: tasks.with_bound(LONG).with_stop_bound(LONG),
            client: client.expect("a client"),
            node,
            core,
            world,
        }
    }

    /// The tasks of that name.
    pub fn named(&mut self, name: &str) -> Vec<TaskInfo> {
        let mut tasks = self.tasks.list().expect("a list");
        tasks.retain(|task| task.name == name);
        tasks
    }

    /// The only task of that name.
    pub fn one(&mut self, name: &str) -> TaskInfo {
        let mut named = self.named(name);
        assert_eq!(named.len(), 1, "{name}");
        named.remove(0)
    }

    /// Has the task `methods` answer.
    pub fn call(&mut self, argument: &[u8]) -> Result<Vec<u8>, NodeError> {
        let result = Caller::new(&mut self.client).call(REVERSE, argument, LONG)?;
        Ok(result.to_vec())
    }

    pub fn assert_answers(&mut self) {
        assert_eq!(self.call(b"abc").expect("a result"), b"cba");
    }

    /// Ends it, and demands that nothing is lost.
    pub fn finish(self) {
        let Self {
            tasks,
            client,
            node,
            core,
            world,
        } = self;
        drop((tasks, client, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

/// Boards that can run `p1` here.
pub fn p1_boards() -> Vec<Board> {
    let runs = |board: &Board| {
        let missing = board.missing("p1");
        if !missing.is_empty() {
            eprintln!("SKIPPED on board {}: {}", board.name(), missing.join("; "));
        }
        missing.is_empty()
    };
    boards().into_iter().filter(runs).collect()
}
