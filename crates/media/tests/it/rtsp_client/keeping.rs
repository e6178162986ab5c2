//! A session that is played is kept alive whatever the server answers, found lost where it is, and
//! ended within bounds.

use std::time::Duration;

use hythe_media::rtsp::client::{Account, Playing};
use hythe_testing::Polling;

use super::script::{Act, SDP, Server, answer, at_once, ok, played};

const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Of what a busy machine may spoil.
const TRIES: usize = 5;

fn play(server: &Server) -> Playing {
    let mut client = server.client(TIME_LIMIT);
    let listed = client.describe().unwrap();
    let stream = listed[0].stream.as_ref().unwrap();
    client.set_up(stream, 6000).unwrap();
    client.play().unwrap()
}

/// The account as soon as it `is_so`.
fn wait(playing: &Playing, is_so: impl Fn(&Account) -> bool) -> Account {
    let mut polling = Polling::new("the account");
    loop {
        let account = playing.account();
        if is_so(&account) {
            return account;
        }
        polling.pause_or_show(|| format!("{account:?}"));
    }
}

/// An answer has a second: a machine that is busy may cost some, and connections.
fn try_some_times(check: impl Fn() -> Result<(), String>) {
    let failures: Vec<_> = (0..TRIES).map_while(|_| check().err()).collect();
    assert!(failures.len() < TRIES, "{failures:#?}");
}

/// The account after two keep-alives that were answered. An error if one was not.
fn kept_alive_twice(playing: &Playing) -> Result<Account, String> {
    let account = wait(playing, |account| {
        account.kept_alive == 2 || account.failed > 0
    });
    match account.failed {
        0 => Ok(account),
        _ => Err(format!("{account:?}")),
    }
}

#[test]
fn server_that_ends_the_session_is_answered_and_believed() {
    let announce = |sdp: &str| {
        let length = sdp.len();
        format!(
            "ANNOUNCE rtsp://h/film RTSP/1.0\r\nCSeq: 5\r\nSession: abc\r\n\
             Content-Length: {length}\r\n\r\n{sdp}"
        )
    };
    let tear_down = |session: &str| {
        format!(
            "TEARDOWN rtsp://h/film RTSP/1.0\r\nCSeq: 9\r\nSession: {session}\r\n\
             Terminate-Reason: Server-Admin;user-msg=\"it carries something else\"\r\n\r\n"
        )
    };
    let other = SDP.replace("RTP/AVP 0", "RTP/AVP 8");
    for (request, status, why) in [
        (
            tear_down("abc"),
            "200 OK",
            Some("it carries something else"),
        ),
        (tear_down("other"), "454 Session", None),
        (announce(SDP), "200 OK", None),
        (
            announce(&other),
            "200 OK",
            Some("other streams than PCMU with payload type 0"),
        ),
        (
            announce(SDP).replace("ANNOUNCE", "REDIRECT"),
            "501 Not",
            None,
        ),
    ] {
        let server = Server::of(played([vec![Act::Say(request.clone().into_bytes())]]));
        let playing = play(&server);
        // Answered at once, whenever the next keep-alive is due.
        let account = match why {
            Some(_) => wait(&playing, |account| account.ended.is_some()),
            None => wait(&playing, |account| account.kept_alive + account.failed > 0),
        };
        match (account.ended, why) {
            (Some(ended), Some(why)) => assert!(ended.contains(why), "{ended}"),
            (ended, why) => assert_eq!((ended, why), (None, None), "{request}"),
        }
        drop(playing);
        let said = server.requests();
        let is_reply = |said: &&String| said.starts_with(&format!("RTSP/1.0 {status}"));
        assert!(said.iter().any(|said| is_reply(&said)), "{said:?}");
        // Nothing is left to end then.
        let is_over = request == tear_down("abc");
        assert!(
            !is_over || !methods(&said).contains(&"TEARDOWN"),
            "{said:?}"
        );
    }
}

fn methods(requests: &[String]) -> Vec<&str> {
    let first = requests.iter().map(|request| request.split(' ').next());
    first.flatten().collect()
}

#[test]
fn server_without_parameters_is_asked_for_its_options() {
    try_some_times(asks_for_options);
}

fn asks_for_options() -> Result<(), String> {
    let no = "RTSP/1.0 501 Not Implemented\r\nCSeq: NUMBER\r\n\r\n";
    let server = Server::of(played([
        answer(no),
        answer(ok("", "")),
        answer(ok("", "")),
        answer(ok("", "")),
    ]));
    let playing = play(&server);
    let account = kept_alive_twice(&playing)?;
    assert_eq!((account.refused, account.is_lost), (1, false));
    let trouble = account.last_trouble.unwrap();
    assert!(trouble.contains("GET_PARAMETER: RTSP/1.0 501"), "{trouble}");
    drop(playing);
    let requests = server.requests();
    assert_eq!(
        methods(&requests)[3..],
        ["GET_PARAMETER", "OPTIONS", "OPTIONS", "TEARDOWN"]
    );
    assert!(
        requests[3..]
            .iter()
            .all(|request| request.contains("Session: abc\r\n"))
    );
    Ok(())
}

#[test]
fn signs_of_life_go_on_over_another_connection() {
    let cases = [
        (vec![Act::Close], "closed the connection"),
        (answer("HTTP/1.1 200 OK\r\n\r\n"), "no RTSP: `HTTP/1.1"),
        (
            answer("RTSP/1.0 200 OK\r\nCSeq: 99\r\n\r\n"),
            "request `99` (CSeq), not 4",
        ),
        (
            vec![
                Act::Hear,
                Act::Drip(b"x".repeat(400), Duration::from_millis(10)),
            ],
            "did not answer within 1.0 s",
        ),
        (
            vec![Act::Hear, Act::Repeat(b"\n".repeat(9000), 9000)],
            "bytes that answer nothing",
        ),
    ];
    at_once(cases, |(acts, trouble)| {
        try_some_times(|| goes_on_after(&acts, trouble));
    });
}

/// A server does that with a keep-alive, and answers others over later connections. An error says
/// what came of it where the first trouble was another.
fn goes_on_after(acts: &[Act], trouble: &str) -> Result<(), String> {
    let again = [answer(ok("", "")), answer(ok("", "")), answer(ok("", ""))].concat();
    let scripts = [vec![played([acts.to_vec()])], vec![again; 8]].concat();
    let server = Server::start(scripts);
    let playing = play(&server);
    let first = wait(&playing, |account| account.failed >= 1);
    let last = wait(&playing, |account| account.kept_alive >= 2);
    drop(playing);
    let requests = server.requests();
    let told = first.last_trouble.unwrap();
    let is_reset = told.contains("reset by peer") || told.contains("Broken pipe");
    let is_as_told = told.contains(trouble) || is_reset;
    let is_ended = methods(&requests).last() == Some(&"TEARDOWN");
    if is_as_told && is_ended && !last.is_lost {
        return Ok(());
    }
    Err(format!("{told}, then {last:?}: {requests:?}"))
}

#[test]
fn packets_that_come_between_signs_of_life_are_passed_over() {
    try_some_times(passes_over_packets);
}

fn passes_over_packets() -> Result<(), String> {
    let frames = Act::Repeat([&b"$\0\0\x08"[..], &[7; 8]].concat(), 100);
    let server = Server::of(played([
        vec![frames],
        answer(ok("", "")),
        vec![Act::Say(b"$\0\0".to_vec())],
        vec![Act::Hear, Act::Say(b"\0".to_vec())],
        vec![Act::Say(ok("", "").replace("NUMBER", "5").into())],
        answer(ok("", "")),
    ]));
    let playing = play(&server);
    let account = kept_alive_twice(&playing)?;
    assert_eq!(account.passed_over.frames, 101);
    drop(playing);
    server.requests();
    Ok(())
}

#[test]
fn server_that_is_gone_or_forgot_the_session_is_found_lost() {
    // Gone: nobody accepts behind the first connection; and silent: it hears on, and says nothing.
    at_once([vec![Act::Close], vec![]], |end| {
        let server = Server::of(played([end]));
        let playing = play(&server);
        let account = wait(&playing, |account| account.is_lost);
        assert!(playing.is_lost() && account.failed >= 1 && account.kept_alive == 0);
        drop(playing);
        server.requests();
    });
    let no = "RTSP/1.0 454 Session Not Found\r\nCSeq: NUMBER\r\n\r\n";
    let server = Server::of(played([answer(no), answer(ok("", ""))]));
    let playing = play(&server);
    let account = wait(&playing, |account| account.is_lost);
    assert_eq!((account.refused, account.failed), (1, 0));
    assert!(
        account
            .last_trouble
            .unwrap()
            .contains("454 Session Not Found")
    );
    // A server that knows it again is not lost.
    assert!(!wait(&playing, |account| account.kept_alive == 1).is_lost);
    drop(playing);
    server.requests();
}

#[test]
fn player_ignores_packets_after_end() {
    let ends = [
        // An answer, and more.
        vec![
            Act::Hear,
            Act::Say(ok("", "").into()),
            Act::Repeat(vec![b'x'; 4096], 20_000),
        ],
        vec![Act::Hear, Act::Repeat(vec![b'$'; 4096], 20_000)],
        answer("RTSP/1.0 454 Session Not Found\r\nCSeq: NUMBER\r\n\r\n"),
        vec![
            Act::Hear,
            Act::Drip(b"x".repeat(1000), Duration::from_millis(10)),
        ],
        vec![Act::Hear],
        vec![Act::Hear, Act::Close],
        vec![Act::Close],
    ];
    at_once(ends, |end| {
        let server = Server::of(played([end]));
        drop(play(&server));
        let requests = server.requests();
        assert!(requests.len() >= 3, "{requests:?}");
    });
}
