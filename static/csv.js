// Files of comma-separated values, made in the page.
const NUMBER = /^-?\d+(\.\d+)?$/;
// How a cell begins that a spreadsheet takes for a formula, which can send other cells elsewhere; as penstock sql has it.
const FORMULA = /^[=+\-@\t\r]/;

// rows: of texts, numbers and nulls; the first one is the head.
export function csvOf(rows) {
  return rows.map((row) => `${row.map(cellOf).join(",")}\n`).join("");
}

function cellOf(value) {
  const text = String(value ?? "");
  const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// Offers a file for download: penstock-orders-depth-20261128T013000Z.csv.
export function saveCsv(parts, rows) {
  const link = document.createElement("a");
  const at = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  link.download = `${["penstock", ...parts, at].filter(Boolean).join("-").replace(/[^\w.-]+/g, "-")}.csv`;
  link.href = URL.createObjectURL(new Blob([csvOf(rows)], { type: "text/csv" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
