namespace MudServer.Softcode;

/// <summary>A loop under way: the item it is at and how many came before.</summary>
internal sealed class SoftcodeLoop
{
    public string Item { get; private set; } = string.Empty;

    public int Position { get; private set; }

    public void MoveTo(string item)
    {
        Item = item;
        Position++;
    }
}
