//! Roles of a caller. In its own namespace a caller has the roles of its token; in another's, those granted to it,
//! limited to those of its token.

use std::fmt;
use std::ops::BitAnd;
use thiserror::Error;

/// Single permission of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Role {
    /// See names, sizes, versions, uploads, sites and placement; request scrubs.
    Read = 1,
    /// Count itemsets and search genomes.
    Count = 1 << 1,
    /// Fetch sealed columns.
    Fetch = 1 << 2,
    /// Upload datasets and new versions of them, and cancel uploads.
    Append = 1 << 3,
    /// Delete and restore datasets.
    Delete = 1 << 4,
    /// Grant roles to others, and end queries.
    Administer = 1 << 5,
    /// Operate the server: see and end the queries of all. Cannot be granted; a token has it only if its line says so.
    Operate = 1 << 6,
}

impl Role {
    /// All roles that can be granted.
    pub const GRANTABLE: [Self; 6] = [
        Self::Read,
        Self::Count,
        Self::Fetch,
        Self::Append,
        Self::Delete,
        Self::Administer,
    ];

    /// Returns the name used in token files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Count => "count",
            Self::Fetch => "fetch",
            Self::Append => "append",
            Self::Delete => "delete",
            Self::Administer => "administer",
            Self::Operate => "operate",
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        Self::GRANTABLE.into_iter().chain([Self::Operate])
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Set of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Roles(u32);

/// Error of a list of roles that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{given:?} is no role; the roles are read, count, fetch, append, delete, administer and, for tokens, operate"
)]
pub struct RoleError {
    given: String,
}

impl Roles {
    /// Empty set.
    pub const NONE: Self = Self(0);
    /// All roles that can be granted: the default of a caller in its own namespace.
    pub const OWNER: Self = Self((1 << 6) - 1);
    /// All roles.
    pub const ALL: Self = Self((1 << 7) - 1);

    /// Creates the set with these bits; `None` if a bit has no role.
    pub fn from_bits(bits: u32) -> Option<Self> {
        (bits & !Self::ALL.0 == 0).then_some(Self(bits))
    }

    /// Returns the set as bits, one for each role.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if the set contains `role`.
    pub fn has(self, role: Role) -> bool {
        self.0 & role as u32 != 0
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the roles of the set.
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::all().filter(move |&role| self.has(role))
    }

    /// Parses a list such as `read,count`.
    ///
    /// # Errors
    /// An unknown name.
    pub fn parse(list: &str) -> Result<Self, RoleError> {
        list.split(',')
            .map(str::trim)
            .try_fold(Self::NONE, |roles, name| {
                let role = Role::all().find(|role| role.name() == name);
                let role = role.ok_or_else(|| RoleError { given: name.into() })?;
                Ok(roles.and(role))
            })
    }

    fn and(self, role: Role) -> Self {
        Self(self.0 | role as u32)
    }
}

impl From<Role> for Roles {
    fn from(role: Role) -> Self {
        Self(role as u32)
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        roles.into_iter().fold(Self::NONE, Self::and)
    }
}

impl BitAnd for Roles {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Role::name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        for bits in 1..=Roles::ALL.bits() {
            let roles = Roles::from_bits(bits).unwrap();
            assert_eq!(Roles::parse(&roles.to_string()), Ok(roles));
            assert_eq!(roles.iter().collect::<Roles>(), roles);
        }
        for wrong in ["", "read,", "Read", "all", "read count"] {
            assert!(Roles::parse(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(Roles::from_bits(Roles::ALL.bits() + 1), None);
        assert_eq!(Role::GRANTABLE.into_iter().collect::<Roles>(), Roles::OWNER);
        assert!(!Roles::OWNER.has(Role::Operate));
    }
}
