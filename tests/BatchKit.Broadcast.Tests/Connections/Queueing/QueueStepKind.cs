namespace BatchKit.Broadcast.Tests.Connections.Queueing;

/// <summary>What a step of a random sequence does.</summary>
internal enum QueueStepKind
{
    Send,
    SendOwned,
    SendControl,
    SwitchWire,
    Grant,
    OpenWire,
    CloseWire,
    BreakWire,
    Complete,
    Abort,
    AdvanceClock,
}
