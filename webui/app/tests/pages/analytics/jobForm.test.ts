import { describe, expect, it } from "vitest";
import { ApiError } from "../../../src/api/client";
import {
  emptyJob,
  emptySchedule,
  jobOf,
  problemsOf,
  scheduleOf,
  sourcesOf,
} from "../../../src/pages/analytics/jobForm";

const PLACES = { traces: ["/srv/traces"], masters: [], concurrency: 1, found: ["/srv/traces", "/srv/traces/plant"] };

describe("the form of an analysis", () => {
  it("begins with what is usual, and with the traces where there is no choice", () => {
    expect(emptyJob({ ...PLACES, found: [] }).source).toBe("/srv/traces");
    expect(emptyJob(PLACES).source).toBe("");
    expect(sourcesOf(PLACES)).toEqual(["/srv/traces", "/srv/traces/plant"]);
    expect(sourcesOf(null)).toEqual([]);
  });

  it("asks for a job", () => {
    const form = { ...emptyJob(PLACES), source: " /srv/traces ", windowS: "1.5", out: " " };
    expect(jobOf(form)).toEqual({
      job: { source: "/srv/traces", out: null, window_s: 1.5, max_pairs: 200, master: "local[*]" },
    });
  });

  it.each([
    ["source", { source: "  " }],
    ["windowS", { windowS: "0.5" }],
    ["windowS", { windowS: "1e99" }],
    ["windowS", { windowS: "" }],
    ["maxPairs", { maxPairs: "2.5" }],
    ["maxPairs", { maxPairs: "many" }],
    ["master", { master: "" }],
  ])("says what is wrong with %s: %o", (field, changes) => {
    const wanted = jobOf({ ...emptyJob(PLACES), source: "/srv/traces", ...changes });
    expect(Object.keys("problems" in wanted ? wanted.problems : {})).toEqual([field]);
  });
});

describe("the form of a schedule", () => {
  const form = { ...emptySchedule(PLACES, "Europe/Rome"), source: "/srv/traces", name: "night" };

  it("asks for a schedule", () => {
    const wanted = scheduleOf({ ...form, cron: " */5 * * * * " });
    expect("request" in wanted && wanted.request).toMatchObject({
      name: "night",
      cron: "*/5 * * * *",
      timezone: "Europe/Rome",
      is_on: true,
    });
  });

  it("wants a name and five fields, together with what is wrong with the job", () => {
    const wanted = scheduleOf({ ...form, name: " ", cron: "* * *", source: "" });
    expect(Object.keys("problems" in wanted ? wanted.problems : {}).sort()).toEqual(["cron", "name", "source"]);
  });
});

describe("what the API found wrong", () => {
  it("stands at the fields", () => {
    const errors = [
      { where: "body.cron", message: "no such hour" },
      { where: "body.job.window_s", message: "too long" },
    ];
    expect(problemsOf(new ApiError(422, "invalid", "…", "invalid", errors))).toEqual({
      cron: "no such hour",
      windowS: "too long",
    });
  });

  it("also where it is forbidden", () => {
    const error = new ApiError(403, "forbidden", "source: '/etc' is not in a place that is allowed", "forbidden");
    expect(problemsOf(error)).toEqual({ source: "'/etc' is not in a place that is allowed" });
  });

  it("is left to others where no field is named", () => {
    expect(problemsOf(new ApiError(409, "conflict", "job: it runs", "conflict"))).toBeNull();
    expect(problemsOf(new ApiError(403, "forbidden", "This needs the role operator.", "forbidden"))).toBeNull();
    expect(problemsOf(new Error("cron: broken"))).toBeNull();
  });
});
