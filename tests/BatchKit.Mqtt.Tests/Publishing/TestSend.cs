using BatchKit.Mqtt.Publishing;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>A send that owns groups and does nothing else.</summary>
internal sealed class TestSend : PublishSend
{
    public override PublishGroup? NextGroup => null;

    protected override Exception? Finish(Exception? cause) => cause;
}
