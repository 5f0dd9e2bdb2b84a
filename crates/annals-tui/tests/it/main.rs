//! The whole browser in a real terminal: tmux.
//!
//! Without tmux every test says that it was skipped. Nothing waits for a time: tests wait for what
//! the terminal shows.

mod tmux;

use tmux::{Tmux, command};

/// Fixtures, and a session with a hostile title.
const FIXTURES: [&str; 4] = [
    "branch-three-way",
    "2.1.325-s02-tools",
    "2.1.325-s04-agent",
    "hostile-text",
];

/// Starts tmux with a script, or says that the test is skipped.
macro_rules! tmux {
    ($script:expr) => {
        match Tmux::start(&FIXTURES, $script) {
            Some(tmux) => tmux,
            None => return,
        }
    };
}

/// A script that notes the state of the terminal before and after the browser.
fn with_stty(env: &str) -> String {
    let browse = command();
    format!(
        "stty -a > before; sh -c 'echo $$ > pid; {env} exec {browse}'; echo \"ended: $?\" > status; \
         stty -a > after; echo ENDED; cat"
    )
}

/// The terminal is as it was: its modes, the alternate screen, the cursor.
fn assert_given_back(tmux: &Tmux) {
    tmux.wait_for("ENDED");
    assert_eq!(tmux.file("before"), tmux.file("after"));
    assert_eq!(
        tmux.ask("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"),
        "0 1 0"
    );
}

#[test]
fn sessions_are_searched_and_read() {
    let tmux = tmux!(&with_stty(""));
    tmux.wait_for("sessions");
    tmux.keys(&["-l", "three-way"]);
    tmux.wait_for("1 session");
    tmux.keys(&["Enter"]);
    tmux.wait_for("branch");
    tmux.keys(&["?"]);
    tmux.wait_for("next prompt");
    tmux.keys(&["Escape"]);
    tmux.keys(&["v"]);
    tmux.wait_for("resumes here");
    tmux.keys(&["C-c"]);
    assert_given_back(&tmux);
    assert_eq!(tmux.file("status"), "ended: 0\n");
}

/// Keys that arrive while the program is busy are all taken.
#[test]
fn no_key_is_lost() {
    let tmux = tmux!(&with_stty(""));
    tmux.wait_for("type to search");
    tmux.keys(&["-l", "abcdefghijklmnopqrstuvwxyz0123456789"]);
    tmux.wait_for("abcdefghijklmnopqrstuvwxyz0123456789");
    tmux.keys(&["C-c"]);
    assert_given_back(&tmux);
}

#[test]
fn signals_give_the_terminal_back() {
    for signal in ["TERM", "HUP", "INT"] {
        let tmux = tmux!(&with_stty(""));
        tmux.wait_for("sessions");
        tmux.kill(signal);
        assert_given_back(&tmux);
        assert_ne!(tmux.file("status"), "ended: 0\n", "{signal}");
    }
}

#[test]
fn a_panic_gives_the_terminal_back() {
    let tmux = tmux!(&with_stty("BROWSE_PANIC_KEY=!"));
    tmux.wait_for("sessions");
    tmux.keys(&["!"]);
    assert_given_back(&tmux);
    assert!(
        tmux.screen().contains("the key of the test"),
        "{}",
        tmux.screen()
    );
    assert_eq!(tmux.file("status"), "ended: 101\n");
}

#[test]
fn suspending_gives_the_terminal_back_until_it_goes_on() {
    let tmux = tmux!("exec bash --norc -i");
    let line = format!("PS1=READY; stty -a > before; {}", command());
    tmux.keys(&["-l", &line]);
    tmux.keys(&["Enter"]);
    tmux.wait_for("type to search");
    tmux.keys(&["C-z"]);
    tmux.wait_for("Stopped");
    tmux.keys(&["-l", "stty -a > after; echo NOTED"]);
    tmux.keys(&["Enter"]);
    tmux.wait_for("\nNOTED");
    // The shell's line editor sets the modes of its own; those of commands are compared.
    assert_eq!(tmux.file("before"), tmux.file("after"));
    tmux.keys(&["-l", "fg"]);
    tmux.keys(&["Enter"]);
    tmux.wait_for("type to search");
    tmux.keys(&["-l", "three-way"]);
    tmux.wait_for("1 session");
    tmux.keys(&["C-c"]);
    tmux.wait_for("READY");
}

#[test]
fn the_chosen_id_is_printed() {
    let script = format!(
        "id=$(BROWSE_PICK=1 {}); echo \"picked: $id.\"; cat",
        command()
    );
    let tmux = tmux!(&script);
    tmux.wait_for("sessions");
    tmux.keys(&["-l", "three-way"]);
    tmux.wait_for("1 session");
    tmux.keys(&["Enter"]);
    tmux.wait_for("picked: 2ca37bcf-f63b-41f2-80a2-ad71db5557a7.");
}

#[test]
fn the_terminal_may_change_its_size() {
    let tmux = tmux!(&with_stty(""));
    tmux.wait_for("sessions");
    tmux.resize(19, 4);
    tmux.wait_for("too small");
    tmux.resize(80, 24);
    tmux.wait_for("^t tree");
    // `stty` names the size, too.
    tmux.resize(120, 30);
    tmux.wait_for("┬");
    tmux.keys(&["C-c"]);
    assert_given_back(&tmux);
}

#[test]
fn no_color_has_no_colors() {
    let has_colors = |tmux: &Tmux| {
        tmux.wait_for("type to search");
        tmux.wait_for("s04-agent");
        let screen = tmux.styled_screen();
        let basic = (30..38).any(|code| screen.contains(&format!("\u{1b}[{code}m")));
        basic || screen.contains("38;5;")
    };
    let tmux = tmux!(&with_stty(""));
    assert!(has_colors(&tmux));
    let tmux = tmux!(&with_stty("NO_COLOR=1"));
    assert!(!has_colors(&tmux), "{:?}", tmux.styled_screen());
}

#[test]
fn hostile_text_reaches_no_terminal() {
    let tmux = tmux!(&with_stty(""));
    tmux.wait_for("sessions");
    let title = tmux.ask("#{pane_title}");
    tmux.keys(&["-l", "hostile-text"]);
    tmux.wait_for("1 session");
    tmux.keys(&["Enter"]);
    tmux.wait_for("find");
    tmux.keys(&["g"]);
    tmux.keys(&["t", "t", "T"]);
    tmux.wait_for("␛");
    assert_eq!(tmux.ask("#{pane_title}"), title);
    tmux.keys(&["C-c"]);
    assert_given_back(&tmux);
}

#[test]
fn without_a_terminal_it_says_so() {
    let output = std::process::Command::new(tmux::program())
        .arg("claude-code:/nowhere")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("needs a terminal"), "{text}");
}
