namespace BatchKit.Tests.Sequences;

/// <summary>What nested ambient scopes share in the model: how many are open, and the handles that were written to.</summary>
internal sealed class ModelGathering
{
    public int OpenScopes { get; set; }

    public List<ModelHandle> Handles { get; } = [];
}
