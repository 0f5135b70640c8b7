namespace BatchKit.Tests.Sequences;

/// <summary>A handle in the model: its open scopes in the order of their opening, those that an ambient scope took included, and what they hold back.</summary>
internal sealed class ModelHandle(int index)
{
    public int Index { get; } = index;

    public List<ModelScope> OpenScopes { get; } = [];

    public List<int> Held { get; } = [];

    public int HeldBytes { get; set; }

    public bool IsHeldBack => OpenScopes.Count > 0;
}
