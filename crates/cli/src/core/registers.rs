//! The registers of a link for people: what each side has written into it, one row per port.
//!
//! Only text; `core status --json` has the same words. Never reads a link itself.

use hythe_terminal::escaped;

use super::status::{self, BellDocument, CoreDocument, EndpointDocument, FlowDocument};
use crate::output;

/// What `core status` says, the sessions and bells of both sides, and the indices of each port in
/// use.
pub(super) fn text(core: &CoreDocument) -> String {
    let mut text = status::core_text(core);
    if let Some(link) = &core.link {
        text.push_str(&output::table(
            &[
                "  SIDE",
                ">SESSION",
                ">ECHOES",
                ">RINGS",
                "RING WANTED",
                "STATE",
            ],
            &[
                side("Linux", link.linux_session, None, &link.linux_bell, ""),
                side(
                    "core",
                    link.core_session,
                    Some(link.echo),
                    &link.core_bell,
                    link.state,
                ),
            ],
        ));
    }
    let rows: Vec<Vec<String>> = core
        .endpoints
        .iter()
        .flat_map(|endpoint| {
            let used = endpoint.ports.iter().filter(|port| port.session != 0);
            used.flat_map(|port| queues(endpoint, port))
        })
        .collect();
    if rows.is_empty() {
        text.push_str("no port is in use\n");
        return text;
    }
    text.push_str(&output::table(
        &[
            "  CHANNEL",
            ">PORT",
            "QUEUE",
            ">TAIL",
            ">HEAD",
            ">WAITING",
            ">SESSION",
            ">ECHO",
            ">WINDOW",
            ">DROPPED",
        ],
        &rows,
    ));
    text
}

fn side(
    name: &str,
    session: u32,
    echo: Option<u32>,
    bell: &BellDocument,
    state: &str,
) -> Vec<String> {
    vec![
        format!("  {name}"),
        session.to_string(),
        echo.map_or_else(String::new, |echo| echo.to_string()),
        bell.rings.to_string(),
        if bell.wanted { "yes" } else { "no" }.to_owned(),
        state.to_owned(),
    ]
}

/// Both queues of a port. That to the core carries messages, or the fill ring of what the core
/// sends.
fn queues(endpoint: &EndpointDocument, port: &FlowDocument) -> [Vec<String>; 2] {
    let (to_core, from_core) = match endpoint.direction {
        "to core" => ("messages", "given back"),
        _ => ("fill ring", "messages"),
    };
    [(to_core, &port.to_core), (from_core, &port.from_core)].map(|(name, queue)| {
        vec![
            format!("  {}", escaped(&endpoint.channel)),
            port.port.to_string(),
            name.to_owned(),
            queue.tail.to_string(),
            queue.head.to_string(),
            queue.waiting.to_string(),
            port.session.to_string(),
            port.echo.to_string(),
            port.window.to_string(),
            port.dropped.to_string(),
        ]
    })
}
