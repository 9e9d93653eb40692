//! The C library's standard names, implemented by one allocator.
//!
//! Each is a single jump. The symbols are those that a preloaded library must define so that no
//! block of one allocator reaches another's `free`.

/// Defines every standard name as a call of the given function.
macro_rules! standard_names {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? => $function:ident;)*) => {
        unsafe extern "C" {
            $(fn $function($($argument: $kind),*) $(-> $result)?;)*
        }
        $(
            #[doc = concat!("The C library's `", stringify!($name), "`.")]
            ///
            /// # Safety
            ///
            /// The C standard's contract.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) $(-> $result)? {
                // SAFETY: the allocator's function has this signature and the same contract as the
                // standard's.
                unsafe { $function($($argument),*) }
            }
        )*
    };
}
