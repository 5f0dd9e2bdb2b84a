//! `annals completions`

use anyhow::Result;
use clap::{Args, ValueEnum};
use clap_complete::Shell;
use clap_complete_nushell::Nushell;

use super::Outcome;
use crate::context::Context;

/// Prints a completion script.
#[derive(Debug, Args)]
#[command(after_help = "\
In bash, zsh and fish, ids of sessions, projects and models are completed too, from the index.

Examples:
  annals completions bash > ~/.local/share/bash-completion/completions/annals
  annals completions zsh > ~/.zfunc/_annals
  annals completions fish > ~/.config/fish/completions/annals.fish
  annals completions nushell > ~/.config/nushell/autoload/annals.nu")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: ShellArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellArg {
    Bash,
    Elvish,
    Fish,
    Nushell,
    #[value(name = "powershell")]
    PowerShell,
    Zsh,
}

/// `printf %q` quotes names that come from logs: a completed word is never run.
const BASH: &str = r#"_annals() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$(printf '%q' "${line%%$'\t'*}")")
    done < <(annals __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _annals annals
"#;

const ZSH: &str = r#"#compdef annals
_annals() {
    local line
    local -a lines found
    lines=("${(@f)$(annals __complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${lines[@]}"; do
        [[ -n $line ]] || continue
        found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if (( ${#found} )); then
        _describe -V annals found
    else
        _files
    fi
}
if [ "${funcstack[1]}" = "_annals" ]; then
    _annals "$@"
else
    compdef _annals annals
fi
"#;

const FISH: &str = "\
function __annals_complete
    annals __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c annals -f -a '(__annals_complete)'
complete -c annals -F -n 'test (count (__annals_complete)) -eq 0'
";

/// Prints a script for the command line that `build` returns.
pub(crate) fn run(
    args: &CompletionsArgs,
    build: fn() -> clap::Command,
    context: &mut Context,
) -> Result<Outcome> {
    let mut script = Vec::new();
    let command = &mut build();
    match args.shell {
        ShellArg::Bash => script.extend_from_slice(BASH.as_bytes()),
        ShellArg::Zsh => script.extend_from_slice(ZSH.as_bytes()),
        ShellArg::Fish => script.extend_from_slice(FISH.as_bytes()),
        ShellArg::Elvish => clap_complete::generate(Shell::Elvish, command, "annals", &mut script),
        ShellArg::PowerShell => {
            clap_complete::generate(Shell::PowerShell, command, "annals", &mut script);
        }
        ShellArg::Nushell => clap_complete::generate(Nushell, command, "annals", &mut script),
    }
    context.out.raw(&script)?;
    Ok(Outcome::Ok)
}
