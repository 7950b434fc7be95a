import { useCallback } from "react";
import { PageFrame, Tabs } from "../components";
import { setQuery, useLocation } from "../router";
import { CreateTopic } from "./topics/CreateTopic";
import { OrderHistory } from "./topics/OrderHistory";
import { OrderEditor } from "./topics/OrderEditor";
import { TopicDialog } from "./topics/TopicDialog";
import { TopicTable } from "./topics/TopicTable";
import "./topics/topics.css";

/** The topics, their order and what became of it. */
export default function Topics() {
  const { query } = useLocation();
  const topic = query.get("topic");
  const close = useCallback(() => setQuery({ topic: null }), []);
  return (
    <PageFrame
      title="Topics"
      lead="What is published to, in the order of precedence: timestamps of topics higher up visit fewer stages."
      actions={<CreateTopic />}
    >
      <Tabs
        label="Views of the topics"
        current={query.get("view") ?? "topics"}
        onChange={(view) => setQuery({ view: view === "topics" ? null : view })}
        tabs={[
          { id: "topics", title: "Topics", panel: () => <TopicTable /> },
          { id: "order", title: "Order", panel: () => <OrderEditor /> },
          { id: "history", title: "History", panel: () => <OrderHistory /> },
        ]}
      />
      {topic && <TopicDialog key={topic} id={topic} onClose={close} />}
    </PageFrame>
  );
}
