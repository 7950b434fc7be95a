import { describe, expect, it } from "vitest";
import { EMPTY_FORM, requestOf } from "../../src/pages/settings/tokenForm";

describe("a form for a token", () => {
  it("becomes a request; only clients have filters and a limit", () => {
    const form = {
      ...EMPTY_FORM,
      name: " desk ",
      days: "2",
      publish: "mqtt:a/#\n\n mqtt:b ",
      mostUnconfirmed: "50",
      mostTopics: "7",
      mostSubscriptions: "3",
    };
    expect(requestOf({ ...form, role: "client" })).toEqual({
      request: {
        name: "desk",
        role: "client",
        expires_in_s: 172_800,
        publish: ["mqtt:a/#", "mqtt:b"],
        subscribe: null,
        max_unconfirmed: 50,
        max_topics: 7,
        max_subscriptions: 3,
      },
    });
    expect(requestOf({ ...form, role: "viewer" })).toMatchObject({ request: { publish: null, max_unconfirmed: null } });
  });

  it("never expires only if that is said", () => {
    expect(requestOf({ ...EMPTY_FORM, name: "x", days: "" })).toMatchObject({ request: { expires_in_s: null } });
    for (const days of ["0", "-1", "1.5", "NaN", "99999", "soon"]) {
      expect(requestOf({ ...EMPTY_FORM, name: "x", days }), days).toHaveProperty("problems.days");
    }
  });

  it("says of each field what is wrong", () => {
    const answer = requestOf({
      ...EMPTY_FORM,
      role: "client",
      publish: "no space",
      subscribe: "mqtt:ok",
      mostUnconfirmed: "0",
      mostTopics: "many",
      mostSubscriptions: "0",
    });
    expect(answer).toHaveProperty("problems.name");
    expect(answer).toHaveProperty("problems.publish", "“no space” is not space:filter, as in mqtt:stocks/#.");
    expect(answer).toHaveProperty("problems.mostUnconfirmed");
    expect(answer).toHaveProperty("problems.mostTopics");
    expect(answer).toHaveProperty("problems.mostSubscriptions");
    expect(answer).not.toHaveProperty("problems.subscribe");
  });
});
