//! Effective settings of `oboro serve`, each with its source.

pub mod file;

use oboro_input::escaped;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Effective settings, in the order of the command's help.
pub struct Settings {
    /// Path of the settings file, if one is used.
    pub file: Option<PathBuf>,
    pub all: Vec<Setting>,
}

/// Effective setting.
pub struct Setting {
    /// Name of its flag, without leading dashes.
    pub name: String,
    /// Value as given; `None` if unset.
    pub value: Option<String>,
    pub source: Source,
}

/// Source of a setting.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Default,
    File,
    Environment,
    CommandLine,
}

impl Settings {
    /// Returns an object with an object for each setting, by name.
    pub fn json(&self) -> Value {
        let settings = self.all.iter().map(|it| {
            let said = json!({ "value": it.value, "source": it.source });
            (it.name.clone(), said)
        });
        json!({ "config": self.file, "settings": settings.collect::<Map<_, _>>() })
    }

    /// Returns a line for each setting.
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
    /// Returns the name of the source in text.
    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::CommandLine => "command line",
        }
    }
}
