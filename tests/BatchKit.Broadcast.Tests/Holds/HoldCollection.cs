namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>What must hold under load, one test after the other, so that each has the machine for itself.</summary>
[CollectionDefinition(Name, DisableParallelization = true)]
public sealed class HoldCollection
{
    public const string Name = "Holds";
}
