//! The standard names of the C library over the functions of one allocator.
//!
//! Each is a single jump. The symbols are those that a preloaded library must have so that no
//! block of one allocator reaches another's `free`.

/// Defines every standard name as a call of the function given for it.
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
            /// What the C standard asks of its callers.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) $(-> $result)? {
                // SAFETY: the allocator's function has this signature and asks of its callers
                // what the standard does.
                unsafe { $function($($argument),*) }
            }
        )*
    };
}
