//! The commands that are programs of their own, one for each hop: a device has those that it needs,
//! and a change of one hop builds one program.
//!
//! `hythe` becomes such a program, and lists those that are installed. Never names their arguments:
//! each program describes its own ([`description`](crate::description)).

use crate::program::Program;

/// A command of `hythe` that is a program of its own.
#[derive(Debug)]
pub struct HopCommand {
    /// What it is called behind `hythe`.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The end of its help.
    pub examples: &'static str,
    /// The program.
    pub program: Program,
    /// The program has other commands besides: its first argument says which.
    pub is_one_of_several: bool,
}

/// All of them, but for those that only other programs call.
pub const SHOWN: [&HopCommand; 11] = [
    &DEMO, &PLAY, &PRELOAD, &MEDIA, &CORE, &HOST, &RUN, &TASKS, &KILL, &LATENCY, &REPORT,
];

/// The command of this name.
pub fn find(name: &str) -> Option<&'static HopCommand> {
    let mut all = SHOWN.into_iter().chain([&TASK_PART]);
    all.find(|command| command.name == name)
}

/// `hythe demo`.
pub const DEMO: HopCommand = HopCommand {
    name: "demo",
    about: "Play an MP3 file from flash over an RTOS core to the wire, check it end to end, print \
            what each hop cost",
    examples: "Examples:\n  hythe demo\n  hythe demo song.mp3 --board hosted --json",
    program: Program::part(
        "hythe-demo",
        "`cargo build --release -p hythe-demo` makes it",
    ),
    is_one_of_several: false,
};

/// `hythe play`.
pub const PLAY: HopCommand = HopCommand {
    name: "play",
    about: "Play a movie whose picture and sound an RTOS core decodes, in step",
    examples: "Examples:\n  hythe play film.mp4 --video-out film.y4m --audio-out film.wav\n  hythe \
               play film.mp4 --board hosted --json | jq .sync_error_ns",
    program: Program::part(
        "hythe-play",
        "`cargo build --release -p hythe-play` makes it",
    ),
    is_one_of_several: false,
};

/// `hythe preload`.
pub const PRELOAD: HopCommand = HopCommand {
    name: "preload",
    about: "Find out what a program or a boot needs from flash, and read it ahead",
    examples: "Example:\n  hythe preload show /etc/hythe/boot.pack",
    program: Program::part(
        "hythe-preload",
        "`cargo build --release -p hythe-preload-command` makes it",
    ),
    is_one_of_several: false,
};

/// `hythe media`.
pub const MEDIA: HopCommand = HopCommand {
    name: "media",
    about: "Send and receive media as RTP",
    examples: "Example:\n  hythe media send film.ts --to rtp://192.0.2.7:5004 --sdp film.sdp",
    program: Program::part(
        "hythe-media",
        "`cargo build --release -p hythe-media-command` makes it",
    ),
    is_one_of_several: false,
};

/// `hythe core`.
pub const CORE: HopCommand = HopCommand {
    name: "core",
    about: "Run RTOS cores and look at them",
    examples: "Example:\n  hythe core run hosted --detach && hythe core status",
    program: Program::part(
        "hythe-core",
        "`cargo build --release -p hythe-core-command` makes it",
    ),
    is_one_of_several: false,
};

/// `hythe host`.
pub const HOST: HopCommand = HopCommand {
    name: "host",
    about: "Let channels reach other hosts: make a realm of hosts, run this host's agent, look at \
            it",
    examples: "Example:\n  hythe host init && hythe host start && hythe host add camera.lan",
    program: Program::part(
        "hythe-hosts",
        "`cargo build --release -p hythe-hosts-command` makes it",
    ),
    is_one_of_several: false,
};

/// `hythe run`.
pub const RUN: HopCommand = of_jobs(
    "run",
    "Run a program as one or many tasks, and wait for their end",
    concat!(
        "The tasks find their rank in HYTHE_RANK, their number in HYTHE_SIZE.\n\n",
        "Examples:\n",
        "  hythe run -n 4 ./solve input.dat\n",
        "  hythe run -n 2 --label -x DEBUG=1 -- make test\n",
        "  hythe run --hosts a,b:2 ./solve input.dat\n",
        "  hythe run --stay &",
    ),
);

/// `hythe tasks`.
pub const TASKS: HopCommand = of_jobs(
    "tasks",
    "List the tasks that run",
    "Example:\n  hythe tasks --json | jq '.tasks[].pid'",
);

/// `hythe kill`.
pub const KILL: HopCommand = of_jobs(
    "kill",
    "Send a signal to a task, and to all processes of its group",
    "Examples:\n  hythe kill 3.0\n  hythe kill 3.0 --signal USR1",
);

/// `hythe task-part`, which the agent of a host calls.
pub const TASK_PART: HopCommand = of_jobs(
    "task-part",
    "The tasks of another host's job, as its agent starts them",
    "",
);

/// `hythe latency`.
pub const LATENCY: HopCommand = HopCommand {
    name: "latency",
    about: "Measure real-time latency, of this machine or of an RTOS on a board, and compare",
    examples: concat!(
        "Examples:\n",
        "  hythe latency host --for 60 --load hog\n",
        "  hythe latency board mps2-an386",
    ),
    program: Program::part(
        "hythe-latency",
        "`cargo build --release -p hythe-latency-command` makes it",
    ),
    is_one_of_several: false,
};

/// `hythe report`.
pub const REPORT: HopCommand = HopCommand {
    name: "report",
    about: "Make one page, with plots, of the results of bench and latency runs",
    examples: "Example:\n  hythe report ipc.json -o report.html",
    program: Program::part(
        "hythe-report",
        "`cargo build --release -p hythe-report` makes it",
    ),
    is_one_of_several: false,
};

const fn of_jobs(name: &'static str, about: &'static str, examples: &'static str) -> HopCommand {
    HopCommand {
        name,
        about,
        examples,
        program: Program::part(
            "hythe-jobs",
            "`cargo build --release -p hythe-jobs-command` makes it",
        ),
        is_one_of_several: true,
    }
}
