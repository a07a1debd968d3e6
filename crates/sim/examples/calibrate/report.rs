//! The results of the fitted model next to the measurements.

use crate::rows::Rows;
use crate::tables::{SIZES, Table};

/// Prints each routine with its seconds, model and paper, and the sums of both groups.
pub fn print(tables: &[Table; 2], runs: &[Vec<Rows>; 2]) {
    for (table, runs) in tables.iter().zip(runs) {
        println!("{}: model seconds (paper's seconds) for 10,000 messages", table.name);
        println!("{:16}{}", "routine", SIZES.map(|size| format!("{size:>18}")).join(""));
        let mut errors = Vec::new();
        let mut sums = [[(0.0, 0.0); 4]; 2];
        for ((routine, seconds), is_bold) in table.rows.iter().zip(&table.is_bold) {
            let mut line = format!("{:16}", routine.name());
            for (column, paper) in seconds.iter().enumerate() {
                let model = runs[column][routine].1 as f64 / 1e9;
                line += &format!("{model:>9.2} ({paper:>6.2})");
                let sum = &mut sums[usize::from(*is_bold)][column];
                *sum = (sum.0 + model, sum.1 + paper);
                errors.push((model - paper).abs() / paper.max(0.005));
            }
            println!("{line}");
        }
        for (group, sums) in ["light", "bold"].iter().zip(sums) {
            let cells = sums.map(|(model, paper)| {
                let error = (model / paper - 1.0) * 100.0;
                format!("{model:>9.2} ({error:>+5.1}%)")
            });
            println!("{:16}{}", format!("sum, {group}"), cells.join(""));
        }
        errors.sort_by(f64::total_cmp);
        println!("median error {:.1} %\n", errors[errors.len() / 2] * 100.0);
    }
}
