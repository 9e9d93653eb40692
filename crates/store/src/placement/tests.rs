//! Homes: stable, balanced, and where the pieces of panels are.
