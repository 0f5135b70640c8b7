namespace BatchKit.Tests.Sequences;

/// <summary>What a step of a random sequence does.</summary>
internal enum StepKind
{
    Write,
    TryWrite,
    WriteAsync,
    WriteText,
    WriteLatest,
    WriteLatestText,
    WriteExpiring,
    WriteLoop,
    OpenScope,
    OpenLimited,
    OpenAmbient,
    Close,
    CloseTwice,
    CloseAsync,
    EndScope,
    FlushHandle,
    FlushAll,
    Advance,
}
