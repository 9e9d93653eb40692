//! The settings of `oboro serve` in force, each with where it comes from.

pub mod file;

use oboro_mining::escaped;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// The settings in force, in the order of the command's help.
pub struct Settings {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    pub all: Vec<Setting>,
}

/// A setting in force.
pub struct Setting {
    /// Its flag, without dashes before it.
    pub name: String,
    /// As it was given; `None` if it is not set.
    pub value: Option<String>,
    pub source: Source,
}

/// Where a setting comes from.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Default,
    File,
    Environment,
    CommandLine,
}

impl Settings {
    /// An object of objects by name.
    pub fn json(&self) -> Value {
        let settings = self.all.iter().map(|it| {
            let said = json!({ "value": it.value, "source": it.source });
            (it.name.clone(), said)
        });
        json!({ "config": self.file, "settings": settings.collect::<Map<_, _>>() })
    }

    /// A line for each.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Setting {
            name,
            value,
            source,
        } in &self.all
        {
            let value = value.as_deref().map_or("not set".into(), escaped);
            let _ = writeln!(text, "{name:28}  {value:20}  {}", source.name());
        }
        text
    }
}

impl Source {
    /// What it is called in text.
    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::CommandLine => "command line",
        }
    }
}
