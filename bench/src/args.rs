//! The command line. What each scenario takes is said in its own folder, and no scenario names this
//! file.

use clap::{Parser, Subcommand};

use crate::core::args::CoreArguments;
use crate::core::pair::WriterArguments;
use crate::core::services::ServiceArguments;
use crate::host::args::{HostArguments, HostEndArguments};
use crate::ipc::args::{EchoArguments, IpcArguments};
use crate::ipc::footprint::IdleNodeArguments;
use crate::media::args::{MediaArguments, MediaEndArguments};
use crate::preload::args::PreloadArguments;
use crate::pvm::args::{PvmArguments, PvmEndArguments};
use crate::pvm::stencil::StencilArguments;
use crate::soak::args::{SoakArguments, WorkerArguments};
use crate::wait_set::args::WaitSetArguments;

/// Measures hops beside their floor and their peers, in one run.
#[derive(Debug, Parser)]
#[command(name = "hythe-bench", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Between two processes of this machine.
    #[command(
        after_help = concat!(
            "Example:\n",
            "  hythe-bench ipc --json --sizes 64,65536 > ipc.json\n\n",
            "Defaults: --count 100000 --sizes 8,64,1024,8192,65536,1048576,4194304\n",
            "  --seconds 60 --rounds 5; --quick: 200 of 64,65536 in 2 s, one round\n\n",
            "Exit codes: 0 done, 1 failed or not valid, 2 wrong use.",
        )
    )]
    Ipc(IpcArguments),
    /// Between this machine and an RTOS core, beside copying as RPMsg does it.
    #[command(
        after_help = concat!(
            "Example:\n",
            "  hythe-bench core --board hosted --sizes 64,1048576 --json > core.json\n\n",
            "Defaults: --count 20000 --seconds 120 --rounds 5, sizes of 8 to 1048576 in the 16\n",
            "  steps of the paper; --quick: 50 of 64,65536 in 2 s, one round\n\n",
            "Exit codes: 0 done, 1 failed or not valid, 2 wrong use.",
        )
    )]
    Core(CoreArguments),
    /// One wait for many channels, all idle but one.
    #[command(
        after_help = concat!(
            "Example:\n",
            "  hythe-bench wait-set --json > wait-set.json\n\n",
            "Exit codes: 0 done, 1 failed, 2 wrong use.",
        )
    )]
    WaitSet(WaitSetArguments),
    /// A file read ahead before a boot, on an emulated board with slow flash.
    #[command(
        after_help = concat!(
            "Example:\n",
            "  hythe-bench preload --fs jffs2 --json > preload.json\n\n",
            "Exit codes: 0 done, 1 failed or not valid, 2 wrong use.",
        )
    )]
    Preload(PreloadArguments),
    /// RTP packets sent as fast as they go, by every method; as root.
    #[command(
        after_help = concat!(
            "Example:\n",
            "  hythe-bench media --json > media.json\n\n",
            "Exit codes: 0 done, 1 failed or not valid, 2 wrong use.",
        )
    )]
    Media(MediaArguments),
    /// The sender or the receiver of scenario media.
    #[command(hide = true)]
    MediaEnd(MediaEndArguments),
    /// Between two hosts, each a network namespace of this machine; as root.
    #[command(
        after_help = concat!(
            "Example:\n",
            "  hythe-bench host --sizes 64,1048576 --json > host.json\n\n",
            "Defaults: --count 20000 --sizes 8,64,1024,8192,65536,1048576,4194304\n",
            "  --seconds 120 --rounds 5; --quick: 100 of 64,65536 in 4 s, one round\n\n",
            "Exit codes: 0 done, 1 failed or not valid, 2 wrong use.",
        )
    )]
    Host(HostArguments),
    /// One of the hosts of scenario host.
    #[command(hide = true)]
    HostEnd(HostEndArguments),
    /// PVM programs: PVM 3.4 and Hythe, beside MPI; as root.
    #[command(
        after_help = concat!(
            "Example:\n",
            "  hythe-bench pvm --parts messages,programs --json > pvm.json\n\n",
            "Defaults: --count 5000 --sizes 64,1048576 --seconds 120 --rounds 5;\n",
            "  --quick: 50 of 64,65536 in 4 s, small programs, one round\n\n",
            "Exit codes: 0 done, 1 failed or not valid, 2 wrong use.",
        )
    )]
    Pvm(PvmArguments),
    /// One of the hosts of scenario pvm.
    #[command(hide = true)]
    PvmEnd(PvmEndArguments),
    /// One task of program jacobi, natively.
    #[command(hide = true)]
    Stencil(StencilArguments),
    /// The other process of a run.
    #[command(hide = true)]
    Echo(EchoArguments),
    /// A process that takes part and does nothing.
    #[command(hide = true)]
    IdleNode(IdleNodeArguments),
    /// The other process of a pair.
    #[command(hide = true)]
    PairWriter(WriterArguments),
    /// The other process of a service.
    #[command(hide = true)]
    ServicePeer(ServiceArguments),
    /// Random joins, kills and traffic, audited; prints one `hythe.result/1` document
    #[command(
        after_help = concat!(
            "Example:\n",
            "  hythe-bench soak --minutes 30 > bench/results/soak.json\n\n",
            "Exit codes: 0 nothing was lost, 1 failed or not valid, 2 wrong use.",
        )
    )]
    Soak(SoakArguments),
    /// One process of a soak.
    #[command(hide = true)]
    SoakWorker(WorkerArguments),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    #[test]
    fn definition_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_is_said_goes_before_what_quick_means() {
        let scale = |words: &[&str]| {
            let all = ["hythe-bench", "ipc"].iter().chain(words);
            match Arguments::parse_from(all).command {
                Command::Ipc(arguments) => arguments.scale(),
                _ => panic!("asked for ipc"),
            }
        };
        assert_eq!((scale(&[]).rounds, scale(&[]).sizes.len()), (5, 7));
        let quick = scale(&["--quick", "--sizes", "8", "--rounds", "3"]);
        let expected = Scale {
            count: 200,
            sizes: vec![8],
            seconds: 2.0,
            rounds: 3,
        };
        assert_eq!(quick, expected);
    }
}
