//! `oboro queries`: lists the queries in progress on a server, and ends them.

use crate::arguments::ServerArguments;
use crate::failure::Outcome;
use crate::output::Output;
use oboro_client::Query;
use oboro_input::escaped;
use serde_json::json;
use std::fmt::Write;

/// With the role operate, those of all owners are listed and can be ended.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
pub enum Command {
    /// End a query; its caller gets an error.
    End(EndArguments),
}

#[derive(clap::Args)]
pub struct EndArguments {
    /// Number of the query, as `oboro queries` lists it.
    #[arg(value_name = "ID")]
    number: u64,
    #[command(flatten)]
    server: ServerArguments,
}

pub fn run(arguments: &Arguments, output: Output) -> Outcome {
    match &arguments.command {
        Some(Command::End(end)) => {
            end.server.connect()?.end_query(end.number)?;
            let value = json!({ "id": end.number, "ended": true });
            output.result(&value, || format!("ended query {}\n", end.number))
        }
        None => list(&arguments.server.connect()?.queries()?, output),
    }
}

fn list(queries: &[Query], output: Output) -> Outcome {
    let value = queries.iter().map(|it| {
        json!({
            "id": it.number,
            "caller": it.caller,
            "call": it.call,
            "name": it.name,
            "seconds": it.duration.as_secs_f64(),
        })
    });
    let value: Vec<_> = value.collect();
    output.result(&value, || {
        if queries.is_empty() {
            return "no queries in progress\n".to_owned();
        }
        let mut text = String::new();
        for it in queries {
            let name = it.name.as_deref().map(|name| format!(" {}", escaped(name)));
            let _ = writeln!(
                text,
                "{}  {}: {}{}, for {} s",
                it.number,
                escaped(&it.caller),
                it.call,
                name.unwrap_or_default(),
                it.duration.as_secs()
            );
        }
        text
    })
}
