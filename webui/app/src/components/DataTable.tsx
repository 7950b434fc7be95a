import { useDeferredValue, useId, useMemo, useState, type ReactNode } from "react";
import { csvName, download, toCsv } from "../lib/csv";
import { formatCount } from "../lib/numbers";
import { filterRows, pageOf, sortRows, type Sort, type Value } from "../lib/tables";
import { Button } from "./Button";
import { Select, TextInput } from "./forms";
import { Icon } from "./Icon";
import { EmptyState } from "./notices";

export interface Column<R> {
  key: string;
  title: string;
  /** What is sorted, searched and exported. Long numbers as BigInt (`toBigInt`), so that they sort and keep their digits. */
  value: (row: R) => Value;
  /** What is shown, if not the value (numbers are grouped by themselves). */
  render?: (row: R) => ReactNode;
  /** "end" for numbers. */
  align?: "start" | "end";
  /** False: buttons and the like; neither sorted nor exported. */
  isData?: boolean;
  /** Not shown, but searched and exported. */
  isHidden?: boolean;
  /** A name for the exported column, where the title is short. */
  csvTitle?: string;
}

export interface DataTableProps<R> {
  /** What the rows are, in the plural: names the table and the exported file. */
  name: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  rowKey: (row: R) => string;
  /** The column and direction at first; without it the rows keep their order. */
  initialSort?: Sort;
  pageSize?: number;
  /** Makes the first column a button that opens the row's details. */
  onOpen?: (row: R) => void;
  isSelected?: (row: R) => boolean;
  /** Shown instead of the table when there are no rows at all. */
  empty: ReactNode;
  /** More controls beside the filter. */
  tools?: ReactNode;
  /** How many there are on the server, if that is more than the rows here. */
  total?: number;
  /** Hides filter, export and sort box, for short tables inside of others. */
  plain?: boolean;
}

/** A table with filter, sorting, paging and CSV export; on a phone each row is a block. */
export function DataTable<R>(props: DataTableProps<R>) {
  const { name, columns, rows, rowKey, pageSize = 50, empty, total, plain = false } = props;
  const [text, setText] = useState("");
  const [sort, setSort] = useState<Sort | null>(props.initialSort ?? null);
  const [page, setPage] = useState(0);
  const wanted = useDeferredValue(text);
  const data = useMemo(() => columns.filter(({ isData }) => isData !== false), [columns]);

  const shown = useMemo(() => {
    const found = filterRows(rows, wanted, (row) => data.map(({ value }) => value(row)));
    const column = sort && data.find(({ key }) => key === sort.key);
    return column ? sortRows(found, column.value, sort.descending) : found;
  }, [rows, wanted, data, sort]);

  if (rows.length === 0) return <>{empty}</>;
  const visible = columns.filter(({ isHidden }) => !isHidden);
  const current = pageOf(shown, page, pageSize);

  const exportCsv = (): void => {
    const header = data.map(({ title, csvTitle }) => csvTitle ?? title);
    download(
      csvName(name.replaceAll(" ", "-")),
      toCsv(
        header,
        shown.map((row) => data.map(({ value }) => value(row))),
      ),
    );
  };

  return (
    <>
      {!plain && (
        <Tools
          name={name}
          text={text}
          onText={setText}
          columns={data}
          sort={sort}
          onSort={setSort}
          onExport={exportCsv}
        >
          <span className="table-count" role="status">
            {countText(shown.length, rows.length, total)}
          </span>
          {props.tools}
        </Tools>
      )}
      {shown.length === 0 ? (
        <EmptyState
          title={`No ${name} with “${wanted}”`}
          icon="search"
          action={<Button onClick={() => setText("")}>Clear the filter</Button>}
        />
      ) : (
        <div className="table-scroll">
          <table className="table" aria-label={name} role="table">
            <thead>
              <tr>
                {visible.map((column) => (
                  <HeadCell key={column.key} column={column} sort={sort} onSort={setSort} />
                ))}
              </tr>
            </thead>
            <tbody>
              {current.rows.map((row) => (
                <tr key={rowKey(row)} role="row" aria-selected={props.isSelected?.(row) || undefined}>
                  {visible.map((column, at) => (
                    <BodyCell key={column.key} column={column} row={row} isFirst={at === 0} onOpen={props.onOpen} />
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {current.pages > 1 && <Pager at={current.at} pages={current.pages} onPage={setPage} />}
    </>
  );
}

function countText(shown: number, here: number, total: number | undefined): string {
  const all =
    total !== undefined && total > here ? `${formatCount(here)} of ${formatCount(total)} loaded` : formatCount(here);
  return shown === here ? all : `${formatCount(shown)} of ${all}`;
}

interface ToolsProps<R> {
  name: string;
  text: string;
  onText: (text: string) => void;
  columns: readonly Column<R>[];
  sort: Sort | null;
  onSort: (sort: Sort | null) => void;
  onExport: () => void;
  children: ReactNode;
}

function Tools<R>({ name, text, onText, columns, sort, onSort, onExport, children }: ToolsProps<R>) {
  const id = useId();
  const choose = (value: string): void => {
    const [key, direction] = value.split(" ");
    onSort(key ? { key, descending: direction === "down" } : null);
  };
  return (
    <div className="table-tools">
      <div className="table-filter">
        <label className="visually-hidden" htmlFor={id}>
          Filter {name}
        </label>
        <Icon name="search" size={14} />
        <TextInput
          id={id}
          type="search"
          placeholder={`Filter ${name}`}
          value={text}
          onChange={(event) => onText(event.target.value)}
        />
      </div>
      <Select
        className="table-sort"
        aria-label={`Sort ${name}`}
        value={sort ? `${sort.key} ${sort.descending ? "down" : "up"}` : ""}
        onChange={(event) => choose(event.target.value)}
      >
        <option value="">Unsorted</option>
        {columns.flatMap(({ key, title }) => [
          <option key={`${key} up`} value={`${key} up`}>
            {title} ↑
          </option>,
          <option key={`${key} down`} value={`${key} down`}>
            {title} ↓
          </option>,
        ])}
      </Select>
      {children}
      <span className="table-spacer" />
      <Button size="small" icon="download" onClick={onExport}>
        CSV
      </Button>
    </div>
  );
}

function HeadCell<R>(props: { column: Column<R>; sort: Sort | null; onSort: (sort: Sort) => void }) {
  const { column, sort, onSort } = props;
  const isSorted = sort?.key === column.key;
  const direction = isSorted ? (sort.descending ? "descending" : "ascending") : undefined;
  const end = column.align === "end" ? "end" : undefined;
  if (column.isData === false) {
    return (
      <th scope="col" className={end}>
        <span className="visually-hidden">{column.title}</span>
      </th>
    );
  }
  // Numbers are looked at from the top first.
  const next = isSorted ? !sort.descending : column.align === "end";
  return (
    <th scope="col" className={end} aria-sort={direction}>
      <button type="button" className="sort" onClick={() => onSort({ key: column.key, descending: next })}>
        {column.title}
        <Icon name="up" size={12} />
      </button>
    </th>
  );
}

function BodyCell<R>(props: { column: Column<R>; row: R; isFirst: boolean; onOpen: ((row: R) => void) | undefined }) {
  const { column, row, isFirst, onOpen } = props;
  const content = column.render ? column.render(row) : plainValue(column.value(row));
  const classes = [column.align === "end" && "end", isFirst && "lead", column.isData === false && "bare"];
  return (
    <td role="cell" data-label={column.title} className={classes.filter(Boolean).join(" ") || undefined}>
      {isFirst && onOpen ? (
        <button type="button" className="row-open" onClick={() => onOpen(row)}>
          {content}
        </button>
      ) : (
        content
      )}
    </td>
  );
}

function plainValue(value: Value): ReactNode {
  if (value === null || value === undefined || value === "") return <span className="muted">–</span>;
  if (typeof value === "boolean") return value ? "yes" : "no";
  // What is none stands back behind what is some.
  if (value === 0 || value === 0n) return <span className="zero">0</span>;
  return typeof value === "string" ? value : formatCount(value);
}

function Pager({ at, pages, onPage }: { at: number; pages: number; onPage: (at: number) => void }) {
  return (
    <nav className="pager" aria-label="Pages">
      <span aria-live="polite">
        Page {at + 1} of {pages}
      </span>
      <Button
        size="small"
        icon="left"
        iconOnly
        aria-label="Previous page"
        disabled={at === 0}
        onClick={() => onPage(at - 1)}
      />
      <Button
        size="small"
        icon="right"
        iconOnly
        aria-label="Next page"
        disabled={at >= pages - 1}
        onClick={() => onPage(at + 1)}
      />
    </nav>
  );
}
