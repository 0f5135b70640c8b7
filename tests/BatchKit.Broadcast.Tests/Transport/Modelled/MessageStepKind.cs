namespace BatchKit.Broadcast.Tests.Transport.Modelled;

/// <summary>What a message of a random send is.</summary>
internal enum MessageStepKind
{
    Text,
    Large,
    Excluding,
    Gmcp,
    Join,
    Leave,
    Close,
    Unknown,
}
