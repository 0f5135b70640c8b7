namespace BatchKit.Tests.Sequences;

/// <summary>What nested ambient scopes share in the model: how many are open, and the scopes that they took on the handles written to.</summary>
internal sealed class ModelGathering
{
    public int OpenScopes { get; set; }

    public List<ModelScope> Taken { get; } = [];
}
