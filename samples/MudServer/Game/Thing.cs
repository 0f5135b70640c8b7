namespace MudServer.Game;

/// <summary>An object in a room, or one that a player carries.</summary>
internal sealed class Thing(int id, string name, string description, bool isFixed)
{
    public int Id { get; } = id;

    public string Name { get; } = name;

    public string Description { get; } = description;

    public bool IsFixed { get; } = isFixed;

    /// <summary>True when a text names it: by its whole name, or by the last word of it ("bell" for "a brass bell").</summary>
    public bool IsCalled(string word) =>
        Name.Equals(word, StringComparison.OrdinalIgnoreCase)
        || Name[(Name.LastIndexOf(' ') + 1)..].Equals(word, StringComparison.OrdinalIgnoreCase)
        || Name[(Name.IndexOf(' ', StringComparison.Ordinal) + 1)..].Equals(word, StringComparison.OrdinalIgnoreCase);
}
