/** What it means to settle stuck numbers by hand, said before it is done. */

export type Action = "void" | "abandoned" | "repair";

export interface Range {
  first: string;
  last: string;
}

/** How many numbers a range has. */
export function countOf(range: Range): bigint {
  return BigInt(range.last) - BigInt(range.first) + 1n;
}

/** A range in words: "number 7", or "numbers 7 to 9". */
export function inWords(range: Range): string {
  return range.first === range.last ? `number ${range.first}` : `numbers ${range.first} to ${range.last}`;
}

export interface Consequence {
  title: string;
  button: string;
  /** Whether something that was promised to subscribers may be broken by it. */
  isRisky: boolean;
  sentences: string[];
}

/** What an action does to a range, what subscribers see of it, and what cannot be undone. */
export function consequenceOf(action: Action, range: Range): Consequence {
  const numbers = inWords(range);
  const isOne = range.first === range.last;
  const [verb, them, become] = isOne ? ["is", "it", "It becomes"] : ["are", "them", "They become"];
  switch (action) {
    case "void":
      return {
        title: `Release ${numbers} as void`,
        button: "Release as void",
        isRisky: true,
        sentences: [
          `You say that ${numbers} ${verb} certainly not on the way: the publisher never handed ${them} to the broker.`,
          `Every subscriber skips ${them} without a report and goes on at once.`,
          "An event that was published after all arrives too late: subscribers that went on drop it as a duplicate, " +
            "and nobody is told.",
        ],
      };
    case "abandoned":
      return {
        title: `Release ${numbers} as abandoned`,
        button: "Release as abandoned",
        isRisky: false,
        sentences: [
          `You say that the publisher of ${numbers} will not come back to confirm.`,
          "Every subscriber goes on, and its application is told of a gap: what is missing may have been published, or not.",
          "What arrives all the same is delivered, tagged as late.",
          "If the publisher confirms later after all, it gets an error that says so.",
        ],
      };
    case "repair":
      return {
        title: `Repair ${numbers} from the event log`,
        button: "Repair from the log",
        isRisky: false,
        sentences: [
          `The event log has ${numbers}. ${become} confirmed.`,
          `Every subscriber that misses ${them} fetches ${them} from the log and goes on; nothing is lost or reported.`,
        ],
      };
  }
}
