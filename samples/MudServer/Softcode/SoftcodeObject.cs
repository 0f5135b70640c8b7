namespace MudServer.Softcode;

/// <summary>What softcode may know of a thing in the world.</summary>
internal readonly record struct SoftcodeObject(int Id, string Name, int LocationId)
{
    public string Reference => $"#{Id}";
}
