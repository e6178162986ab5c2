//! `hythe completions SHELL`: what the definitions of the commands say, and behind it what is not
//! known before: the names of the channels that there are.

use clap_complete::{Shell, generate};
use serde::Serialize;

use crate::args::Globals;
use crate::command_line;
use crate::error::CliError;
use crate::output;

/// Prints the names of the channels, one a line.
const CHANNELS: &str = "hythe list 2>/dev/null | sed -n 's/^channel \\(.*\\) carries .*/\\1/p'";

/// Behind the script for bash: what it completes, and a channel where one is named.
const BASH: &str = r#"
_hythe_with_channels() {
    _hythe "$@"
    local word="${COMP_WORDS[COMP_CWORD]}"
    [[ "$word" == -* || $COMP_CWORD -lt 2 ]] && return 0
    case "${COMP_WORDS[1]}" in
        hz|pub|record|sub)
            local IFS=$'\n'
            COMPREPLY+=($(compgen -W "$(CHANNELS)" -- "$word"))
            ;;
    esac
}
complete -F _hythe_with_channels -o bashdefault -o default hythe
"#;

const ZSH: &str = r#"
_hythe_channels() {
    local -a channels
    channels=(${(f)"$(CHANNELS)"})
    compadd -a channels
}
"#;

const FISH: &str = r#"
complete -c hythe -n "__fish_hythe_using_subcommand hz pub record sub" -f -a "(CHANNELS)"
"#;

#[derive(Serialize)]
struct Document {
    shell: String,
    script: String,
}

pub(crate) fn run(shell: Shell, globals: &Globals) -> Result<(), CliError> {
    let mut script = Vec::new();
    generate(shell, &mut command_line::whole()?, "hythe", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let script = with_channels(shell, script);
    let document = Document {
        shell: shell.to_string(),
        script,
    };
    output::print(globals.json, &document, |document| document.script.clone())
}

fn with_channels(shell: Shell, script: String) -> String {
    let with = |part: &str| part.replace("CHANNELS", CHANNELS);
    match shell {
        Shell::Bash => script + &with(BASH),
        Shell::Fish => script + &with(FISH),
        Shell::Zsh => {
            let lines = script
                .lines()
                .map(|line| match line.starts_with("':channel -- ") {
                    true => line.replace(":_default'", ":_hythe_channels'"),
                    false => line.to_owned(),
                });
            let mut lines: Vec<String> = lines.collect();
            // Behind the line that says for which command it is.
            lines.insert(1, with(ZSH));
            lines.join("\n") + "\n"
        }
        _ => script,
    }
}
