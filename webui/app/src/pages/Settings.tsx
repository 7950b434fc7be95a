/** Tokens, the audit log, definitions, and how this browser shows it all. */
import { useCan } from "../api/session";
import { PageFrame, Tabs, type Tab } from "../components";
import { setQuery, useLocation } from "../router";
import { AppearanceTab } from "./settings/AppearanceTab";
import { AuditTab } from "./settings/AuditTab";
import { DefinitionsTab } from "./settings/DefinitionsTab";
import { TokensTab } from "./settings/TokensTab";
import "../styles/choices.css";
import "../styles/settings.css";

export default function Settings() {
  const { query } = useLocation();
  const isAdmin = useCan("admin");
  const isOperator = useCan("operator");
  const tabs: Tab[] = [
    ...(isAdmin ? [{ id: "tokens", title: "Tokens", panel: () => <TokensTab /> }] : []),
    ...(isAdmin ? [{ id: "audit", title: "Audit log", panel: () => <AuditTab /> }] : []),
    ...(isOperator ? [{ id: "definitions", title: "Definitions", panel: () => <DefinitionsTab /> }] : []),
    { id: "appearance", title: "Appearance", panel: () => <AppearanceTab /> },
  ];
  return (
    <PageFrame
      title="Settings"
      lead="Who may do what, who did what, and the definitions to keep or to carry elsewhere."
    >
      <Tabs
        label="Settings"
        tabs={tabs}
        current={query.get("tab") ?? tabs[0]!.id}
        onChange={(tab) => setQuery({ tab })}
      />
    </PageFrame>
  );
}
