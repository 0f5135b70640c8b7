namespace BatchKit;

/// <summary>What a message is for, so that the last hop can treat it rightly.</summary>
public enum MessageKind
{
    /// <summary>Text or data for the destination; what a plain write is.</summary>
    Output = 0,

    /// <summary>A prompt: like output, and a telnet hop ends it with GA or EOR (RFC 854, RFC 885).</summary>
    Prompt = 1,

    /// <summary>An order to the last hop, in the order of the output around it. See <see cref="ControlMessage"/>.</summary>
    Control = 2,
}
