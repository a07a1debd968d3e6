//! The names of an enum's variants, written once.

/// Gives an enum the list of its variants and their names.
///
/// The list has every variant, in the order of the rows: a variant without a row does not compile.
#[macro_export]
macro_rules! named {
    ($enum:ident { $($variant:ident => $name:literal,)+ }) => {
        impl $enum {
            /// Every variant, in order of code or path.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in reports, traces and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
