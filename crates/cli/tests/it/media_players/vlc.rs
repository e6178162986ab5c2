//! VLC with live555 as a player: of our description as it is, and of what `hythe media serve`
//! offers.
//!
//! It writes what it plays into a file. At our goodbye it throws away what it has not played yet:
//! the end of a stream is missing there, and nothing else may be.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::media_players::tools::{ended_well, fixture, program_of_environment};
use crate::support::streams::{
    self, H264, Kind, MediaFixture, PCMA, PCMU, SAMPLES, Sample, TS, content,
};
use crate::support::{Running, eventually};
use hythe_testing::let_time_pass;

const SCRIPT: &str = "scripts/vlc-live555.sh";
/// How long VLC keeps what came before it plays it; not above the half of a stream that has to be
/// played.
const KEPT: &str = "--network-caching=100";
/// VLC has opened a description, and reads from its sockets next, without a word. If packets and a
/// report wait there, it reads packets first.
const BEGINS_TO_READ: Duration = Duration::from_millis(300);
/// Bytes of a decoded picture.
const PICTURE_BYTES: usize = 160 * 120 * 3 / 2;
/// Of a packet of Opus, by which the first one is found.
const FIRST_BYTES: usize = 32;
/// Pictures that were cut off at the end, or need others that were.
const PICTURES_CUT: usize = 4;

/// VLC, and a place where it plays.
struct VlcFixture {
    vlc: String,
    fixture: MediaFixture,
}

impl VlcFixture {
    fn open(left_out: &str) -> Option<Self> {
        let vlc = program_of_environment("HYTHE_VLC", SCRIPT, left_out)?;
        let fixture = fixture(&[(&vlc, "--version")], left_out)?;
        Some(Self { vlc, fixture })
    }

    /// Starts VLC, which ends with what it plays. A description is opened as its line `i=` says.
    fn play(&self, url: &str, way: &str) -> Running {
        let mut command = Command::new(&self.vlc);
        command
            .args([
                "-vv",
                "-I",
                "dummy",
                "--play-and-exit",
                "--no-media-library",
                "--no-sap-parse",
            ])
            .args([KEPT, "--sout", way, url])
            // Nothing of who runs the test, and nothing is left there.
            .env("HOME", self.fixture.root.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Running::new(command)
    }

    /// Serves files, and says where. Options may be among them.
    fn serve(&self, files: &[&str]) -> (Running, String) {
        let port = streams::port();
        let listen = format!("127.0.0.1:{port}");
        let arguments = ["media", "serve", "--listen", &listen];
        let server = self.fixture.root.start(&[&arguments, files].concat());
        eventually("the server listens", || {
            std::net::TcpStream::connect(&listen).is_ok()
        });
        (server, format!("rtsp://{listen}"))
    }
}

/// How VLC is told to write what it plays into `out`, and beside it.
fn written_to(sample: &Sample, out: &str) -> String {
    let as_it_came = format!("std{{access=file,mux=dummy,dst={out}}}");
    match sample.kind {
        Kind::TransportStream => format!("#std{{access=file,mux=ts,dst={out}}}"),
        Kind::Samples | Kind::RawSamples(..) => format!("#transcode{{acodec=s16l}}:{as_it_came}"),
        Kind::MpegAudio | Kind::Opus => format!("#{as_it_came}"),
        Kind::Pictures | Kind::RawPictures => format!(
            "#duplicate{{dst={as_it_came},dst='transcode{{vcodec=I420}}:std{{access=file,mux=dummy,dst={out}.pictures}}'}}"
        ),
    }
}

/// It is what `input` begins with, to the half of it at least.
fn assert_played(sample: &Sample, input: &str, out: &str, said: &str) {
    match sample.kind {
        Kind::TransportStream => return assert_packets_played(input, out, said),
        Kind::Pictures | Kind::RawPictures => {
            return assert_pictures_played(sample, input, out, said);
        }
        Kind::MpegAudio => return assert_frames_played(input, out, said),
        Kind::Opus | Kind::Samples | Kind::RawSamples(..) => {}
    }
    let source = match sample.kind {
        Kind::Opus => streams::ffmpeg(&format!("-i {input} -map 0 -c copy -f data -")),
        kind => content(kind, input),
    };
    let mut played = std::fs::read(out).expect("written");
    if sample.kind == Kind::Opus {
        // In front of the packets VLC writes a header that it made itself.
        let begins = played
            .windows(FIRST_BYTES)
            .position(|some| some == &source[..FIRST_BYTES]);
        played.drain(..begins.unwrap_or(0));
    }
    let same = same_at_begin(&played, &source);
    assert!(
        same == played.len() && same >= source.len() / 2,
        "{}: {} bytes were played of {}, {same} of them as they were: {said}",
        sample.name,
        played.len(),
        source.len()
    );
}

/// Two frames may be missing behind the first packet: where that and the report in front of it wait
/// in its sockets together, VLC reads the packet first, and finds its way into MPEG audio once more
/// when it knows the time.
fn assert_frames_played(input: &str, out: &str, said: &str) {
    let (played, source) = (streams::packets(out), streams::packets(input));
    let in_order = in_order(&played, &source);
    let last = source.iter().position(|frame| Some(frame) == played.last());
    let passed_over = last.map(|last| (last + 1).saturating_sub(played.len()));
    assert!(
        in_order == played.len() && in_order >= source.len() / 2 && passed_over <= Some(2),
        "{} frames of MPEG audio were played of {}, {in_order} of them in order: {said}",
        played.len(),
        source.len()
    );
}

/// How many are found one behind the other, others between them or not.
fn in_order<T: PartialEq>(played: &[T], source: &[T]) -> usize {
    let mut rest = source.iter();
    let found = played
        .iter()
        .take_while(|one| rest.any(|other| other == *one));
    found.count()
}

fn same_at_begin<T: PartialEq>(played: &[T], source: &[T]) -> usize {
    let pairs = played.iter().zip(source);
    pairs.take_while(|(one, other)| one == other).count()
}

/// Picture and sound of a transport stream, which VLC writes into one of its own.
fn assert_packets_played(input: &str, out: &str, said: &str) {
    for stream in ["v", "a"] {
        let of = |path: &str| {
            let arguments = format!("-i {path} -map 0:{stream} -c copy -f framehash -");
            let listed = streams::ffmpeg(&arguments);
            streams::packets_of_list(&String::from_utf8_lossy(&listed))
        };
        let (played, source) = (of(out), of(input));
        let same = same_at_begin(&played, &source);
        // The last one is cut off.
        assert!(
            same + 1 >= played.len() && same >= source.len() / 2,
            "stream {stream}: {} packets were played of {}, {same} of them as they were: {said}",
            played.len(),
            source.len()
        );
    }
}

/// What was received decodes to the pictures of the source, and what VLC has decoded itself are
/// such, in their order. Its encoder of raw pictures leaves out those that it thinks to be late.
fn assert_pictures_played(sample: &Sample, input: &str, out: &str, said: &str) {
    let format = if sample.name.contains("h265") {
        "hevc"
    } else {
        "h264"
    };
    let arguments =
        format!("-f {format} -i {out} -fps_mode passthrough -f rawvideo -pix_fmt yuv420p -");
    let source = content(sample.kind, input);
    let source: Vec<&[u8]> = source.chunks(PICTURE_BYTES).collect();
    let received = streams::ffmpeg(&arguments);
    let received: Vec<&[u8]> = received.chunks(PICTURE_BYTES).collect();
    let same = same_at_begin(&received, &source);
    assert!(
        same + PICTURES_CUT >= received.len() && same >= source.len() / 2,
        "{}: {} pictures were received of {}, {same} of them as they were: {said}",
        sample.name,
        received.len(),
        source.len()
    );
    let decoded = std::fs::read(format!("{out}.pictures")).expect("written");
    let decoded: Vec<&[u8]> = decoded.chunks(PICTURE_BYTES).collect();
    let in_order = in_order(&decoded, &source);
    assert!(
        in_order == decoded.len() && in_order >= source.len() / 2,
        "{}: VLC decoded {} pictures of {}, {in_order} of them as they were: {said}",
        sample.name,
        decoded.len(),
        source.len()
    );
}

fn opens_our_description(vlc: &VlcFixture, sample: &Sample, repair: &[&str]) {
    let fixture = &vlc.fixture;
    let input = fixture.make(sample);
    // Parity goes to the ports behind, which are not another stream's.
    let port = streams::ports(if repair.is_empty() { 1 } else { 3 });
    let options = [sample.options, repair].concat();
    let sdp = fixture.describe(&input, &options, port);
    let out = fixture.file(&format!("{port}.vlc"));
    let player = vlc.play(&sdp, &written_to(sample, &out));
    player.wait_until_said("successfully opened");
    streams::wait_until_listening(port);
    let_time_pass(BEGINS_TO_READ, "VLC does not show that it reads");
    fixture.send_with(&input, port, &options);
    let ended = ended_well(sample.name, player);
    assert_played(sample, &input, &out, &ended.errors);
}

#[test]
fn vlc_plays_every_payload_from_our_description() {
    let Some(vlc) = VlcFixture::open("VLC plays what we send") else {
        return;
    };
    let repaired = [&TS, &H264];
    for sample in repaired {
        vlc.fixture.make(sample); // once for both
    }
    thread::scope(|scope| {
        for sample in &SAMPLES {
            let vlc = &vlc;
            scope.spawn(move || opens_our_description(vlc, sample, &[]));
        }
        // It knows nothing of parity: what is beside the media is passed over.
        for sample in repaired {
            let (vlc, parity) = (&vlc, ["--parity", "5x5"]);
            scope.spawn(move || opens_our_description(vlc, sample, &parity));
        }
    });
    vlc.fixture.is_clean();
}

/// A file that is served as `sample` is sent.
fn offered(fixture: &MediaFixture, sample: &Sample) -> String {
    let input = fixture.make(sample);
    let Kind::RawSamples(format, rate, channels) = sample.kind else {
        return input;
    };
    // Raw samples do not say what they are.
    let wav = format!("{input}.wav");
    let codec = format!("pcm_{format}");
    streams::ffmpeg(&format!(
        "-f {format} -ar {rate} -ac {channels} -i {input} -c:a {codec} {wav}"
    ));
    wav
}

#[test]
fn vlc_plays_every_served_payload() {
    let Some(vlc) = VlcFixture::open("VLC plays what is served") else {
        return;
    };
    let offers: Vec<String> = SAMPLES
        .iter()
        .map(|sample| offered(&vlc.fixture, sample))
        .collect();
    let files: Vec<&str> = offers.iter().map(String::as_str).collect();
    let (server, base) = vlc.serve(&files);
    thread::scope(|scope| {
        for (sample, offer) in SAMPLES.iter().zip(&offers) {
            let (vlc, base) = (&vlc, &base);
            scope.spawn(move || {
                let name = Path::new(offer).file_name().expect("a file");
                let url = format!("{base}/{}", name.display());
                let out = vlc.fixture.file(&format!("{}.vlc", name.display()));
                let player = vlc.play(&url, &written_to(sample, &out));
                let ended = ended_well(sample.name, player);
                let said = &ended.errors;
                // What is served as what it was, not as samples that it was decoded to.
                let payload = match sample.name {
                    name if name == PCMU.name => "audio/PCMU",
                    name if name == PCMA.name => "audio/PCMA",
                    _ => "RTP subsession",
                };
                assert!(said.contains(payload), "{said}");
                assert_played(sample, &vlc.fixture.make(sample), &out, said);
            });
        }
    });
    server.interrupt();
    let ended = ended_well("serving", server);
    let sessions = format!("{} sessions", SAMPLES.len());
    assert!(ended.text().contains(&sessions), "{}", ended.text());
    vlc.fixture.is_clean();
}

/// It knows neither requests nor the profile that has them (RFC 4585), and says so: such a
/// description is for others.
#[test]
fn vlc_refuses_description_with_repair() {
    let Some(vlc) = VlcFixture::open("VLC does not play what is sent again") else {
        return;
    };
    let (input, port) = (vlc.fixture.make(&H264), streams::port());
    let sdp = vlc
        .fixture
        .describe(&input, &["--repair-window", "200"], port);
    let out = vlc.fixture.file("refused.vlc");
    let ended = vlc.play(&sdp, &written_to(&H264, &out)).end();
    let refused = format!("Bad SDP \"m=\" line: m=video {port} RTP/AVPF");
    assert!(ended.errors.contains(&refused), "{}", ended.errors);
}

/// Asked for it (RTSP), we describe to VLC what it takes, and serve it without repair.
#[test]
fn vlc_plays_stream_that_others_repair() {
    let Some(vlc) = VlcFixture::open("VLC plays what is served without loss") else {
        return;
    };
    let input = vlc.fixture.make(&H264);
    let (server, base) = vlc.serve(&[&input, "--repair-window", "200"]);
    let out = vlc.fixture.file("served.vlc");
    let player = vlc.play(&format!("{base}/{}", H264.name), &written_to(&H264, &out));
    let ended = ended_well(H264.name, player);
    assert_played(&H264, &input, &out, &ended.errors);
    server.interrupt();
    ended_well("serving", server);
}

/// By the address alone, without live555: so VLC is told to where a distribution leaves that out.
#[test]
fn vlc_plays_transport_stream_by_address() {
    let Some(vlc) = VlcFixture::open("VLC plays a transport stream by its address") else {
        return;
    };
    let (input, port) = (vlc.fixture.make(&TS), streams::port());
    let out = vlc.fixture.file("address.vlc");
    let player = vlc.play(&format!("rtp://@127.0.0.1:{port}"), &written_to(&TS, &out));
    eventually("VLC listens", || streams::is_bound(port));
    vlc.fixture.send_with(&input, port, TS.options);
    // It hears no goodbye there. What came is in its hands when its sockets are empty.
    eventually("all is taken", || streams::waiting_bytes(port) == Some(0));
    player.signal(Signal::TERM);
    let ended = ended_well("by address", player);
    assert!(
        ended.errors.contains("detected MPEG2 TS"),
        "{}",
        ended.errors
    );
    assert_packets_played(&input, &out, &ended.errors);
}
