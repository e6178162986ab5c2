//! The sum of 1 to 1,000,000 by several tasks: `hythe run -n 4 target/release/examples/tasks`.

use std::time::Duration;

use hythe::tasks::Task;

const LAST: u64 = 1_000_000;
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut task = Task::join()?;
    let group = task.sibling_group();
    let (rank, size) = (u64::from(task.rank()), u64::from(task.size()));

    // The first gives each its part.
    let bounds: Vec<[u8; 16]> = (0..size)
        .map(|part| {
            let (from, to) = (LAST * part / size, LAST * (part + 1) / size);
            (u128::from(from) << 64 | u128::from(to)).to_le_bytes()
        })
        .collect();
    let parts: Vec<&[u8]> = bounds.iter().map(<[u8; 16]>::as_slice).collect();
    let part = group.scatter(&mut task, 0, &parts, TIMEOUT)?;
    let part = u128::from_le_bytes(part.as_slice().try_into()?);
    let (from, to) = ((part >> 64) as u64, part as u64);

    // Each sums its own, the first gets the sum of all.
    let own: u64 = (from + 1..=to).sum();
    println!(
        "task {} of {size} sums {} to {to}: {own}",
        task.id(),
        from + 1
    );
    let sum = group.reduce(&mut task, 0, &[own], |one, other| one + other, TIMEOUT)?;
    group.barrier(&mut task, TIMEOUT)?;
    if rank == 0 {
        assert_eq!(sum, [LAST * (LAST + 1) / 2]);
        println!("the sum is {}", sum[0]);
    }
    Ok(())
}
