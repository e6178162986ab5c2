//! Systems that are sockets of this process: TCP, UDP, and the floor of datagrams.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;

use super::case::{Payload, System};
use super::datagrams::DatagramsEnd;
use super::message::Run;
use super::udp::UdpEnd;
use crate::cpus;
use crate::error::BenchError;
use crate::ipc::end::{self, End};
use crate::ipc::stream::StreamEnd;
use crate::lookout::Lookout;
use crate::statistics;

/// Says by `listening` at which port, and answers until the other side has finished.
pub(super) fn echo(
    run: &Run,
    own: IpAddr,
    listening: impl FnOnce(u16) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let (lookout, place) = (Lookout::default(), (run.case, run.size));
    match run.case.system {
        System::Tcp => {
            let listener = TcpListener::bind((own, 0))?;
            listening(listener.local_addr()?.port())?;
            let (stream, _) = listener.accept()?;
            end::echo(&mut tcp(stream, run, lookout)?)
        }
        System::Udp => {
            let mut end = DatagramsEnd::open(own, None, place, lookout)?;
            listening(end.port()?)?;
            end::echo(&mut end)
        }
        _ => {
            let mut end = UdpEnd::open(own, None, place, lookout)?;
            listening(end.port()?)?;
            end::echo(&mut end)
        }
    }
}

/// There and back with who listens there; what was found, as base64 of an HdrHistogram V2.
pub(super) fn measure(run: &Run, own: IpAddr, other: SocketAddr) -> Result<String, BenchError> {
    let (lookout, place) = (Lookout::default(), (run.case, run.size));
    match run.case.system {
        System::Tcp => measured(tcp(TcpStream::connect(other)?, run, lookout)?, run),
        System::Udp => measured(DatagramsEnd::open(own, Some(other), place, lookout)?, run),
        _ => measured(UdpEnd::open(own, Some(other), place, lookout)?, run),
    }
}

/// Within this host, where it makes no difference to a socket that the other side is a thread.
pub(super) fn measure_beside_a_thread(
    run: &Run,
    cpus: Option<[usize; 2]>,
) -> Result<String, BenchError> {
    let own = IpAddr::from(Ipv4Addr::LOCALHOST);
    let (said, port) = channel();
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            if let Some([_, cpu]) = cpus {
                cpus::pin(cpu)?;
            }
            echo(run, own, |port| {
                // Whoever measures waits for it.
                let _ = said.send(port);
                Ok(())
            })
        });
        let measured = match port.recv() {
            Ok(port) => measure(run, own, SocketAddr::new(own, port)),
            Err(_) => Err(BenchError::PeerLost("it does not listen".to_owned())),
        };
        let lost = |_| BenchError::PeerLost("the answering thread panicked".to_owned());
        other.join().map_err(lost)?.and(measured)
    })
}

pub(super) fn measured(mut end: impl End, run: &Run) -> Result<String, BenchError> {
    let times = end::round_trips(&mut end, run.budget())?;
    end.finish()?;
    statistics::encode(&[times])
}

/// What people set who care for the time of small messages.
fn tcp(stream: TcpStream, run: &Run, lookout: Lookout) -> Result<StreamEnd, BenchError> {
    debug_assert_eq!(run.case.payload, Payload::Filled);
    stream.set_nodelay(true)?;
    let output = stream.try_clone()?.into();
    StreamEnd::new(stream.into(), output, run.case.of_ipc(), run.size, lookout)
}
