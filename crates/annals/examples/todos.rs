//! Saves the todos of a session's agents and reads them back.
//!
//! `cargo run -p annals --example todos`

use annals::model::{Draft, Todo, TodoStatus};
use annals::store::{Root, Store};

fn main() -> annals::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| annals::Error::io("create", "root", error))?;
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let session = store.begin("/home/me/app")?;
    session.append(Draft::user("Make the parser faster"))?;

    // A list replaces the previous one atomically: a reader never sees half of it.
    let mut todos = vec![Todo::pending("Measure"), Todo::pending("Remove the copies")];
    session.set_todos(&todos)?;
    if let Some(first) = todos.first_mut() {
        first.status = TodoStatus::InProgress;
        first.active_form = Some("Measuring".into());
    }
    session.set_todos(&todos)?;

    // Every agent of the session has a list of its own.
    let helper = session.delegate("toolu_task", "Explore", "Read the profile")?;
    helper.append(Draft::user("Read the profile"))?;
    helper.set_todos(&[Todo::pending("Open the profile")])?;

    let lists = store.session(session.session().as_str())?.todos()?;
    for (agent, todos) in &lists {
        println!("{agent}");
        for todo in todos {
            println!("  {:?}: {}", todo.status, todo.content);
        }
    }
    let [(of_main, main_list), (of_helper, helper_list)] = lists.as_slice() else {
        panic!("two agents have todos, not {}", lists.len());
    };
    assert_eq!(*of_main, session.session().to_string());
    assert_eq!(*main_list, todos);
    assert_eq!(
        Some(of_helper.as_str()),
        helper.agent().as_ref().map(|agent| agent.as_str())
    );
    assert_eq!(helper_list.len(), 1);

    // An empty list removes the todos.
    session.set_todos(&[])?;
    assert_eq!(store.session(session.session().as_str())?.todos()?.len(), 1);
    Ok(())
}
